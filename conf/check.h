/* What settings must be to each other, when each of them is right by itself. */
#ifndef VANILLA_CONF_CHECK_H
#define VANILLA_CONF_CHECK_H

#include <libconfig.h>

#include "conf/conf.h"
#include "conf/options.h"

/* Reports what does not go together in a conf that has been read from this tree. */
void conf_check(const struct reader *rd, const config_setting_t *root, const struct conf *conf);

#endif
