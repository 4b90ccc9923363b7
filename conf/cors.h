/* cors: of the file and of a route. */
#ifndef VANILLA_CONF_CORS_H
#define VANILLA_CONF_CORS_H

#include <libconfig.h>

#include "conf/conf.h"
#include "conf/options.h"

/* Reads the group (NULL: there is none, or it is not one).  NULL where no origin is let in; problems are reported. */
const struct conf_cors *cors_read(const struct reader *rd, const config_setting_t *group);

#endif
