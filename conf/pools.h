/* pools: the connections to PostgreSQL, and the status that a shed request gets. */
#ifndef VANILLA_CONF_POOLS_H
#define VANILLA_CONF_POOLS_H

#include <libconfig.h>

#include "conf/conf.h"
#include "conf/options.h"

/* Reads pools out of the file's tree into conf; problems are reported. */
void pools_read(const struct reader *rd, const config_setting_t *root, struct conf *conf);

/* The index of the pool of that name, or -1. */
int pools_find(const struct conf *conf, const char *name);

/* Is `status`, the value of a setting called status or shed_status in `group`, one that a shed may have?  If not, it is
 * reported; 200 and 204 are warned about.  Nothing is said when the group does not have the setting. */
void shed_status_check(const struct reader *rd, enum option_group table, const config_setting_t *group,
                       const char *name);

#endif
