/* routes: which method and path is answered by what. */
#ifndef VANILLA_CONF_ROUTES_H
#define VANILLA_CONF_ROUTES_H

#include <libconfig.h>

#include "conf/conf.h"
#include "conf/options.h"

/* Reads routes out of the file's tree into conf, whose pools have been read; problems are reported. */
void routes_read(const struct reader *rd, const config_setting_t *root, struct conf *conf);

#endif
