/* listen and admin: where the server can be reached. */
#ifndef VANILLA_CONF_ADDRESS_H
#define VANILLA_CONF_ADDRESS_H

#include <libconfig.h>

#include "conf/conf.h"
#include "conf/options.h"

/* Reads listen and admin out of the file's tree into conf, defaults included; problems are reported. */
void addresses_read(const struct reader *rd, const config_setting_t *root, struct conf *conf);

/* Makes a socket address of "ADDRESS:PORT", "[ADDRESS]:PORT", "localhost:PORT" (127.0.0.1), "*:PORT" (0.0.0.0) or
 * "unix:/PATH".  NULL, or what is wrong with it and what is allowed, a sentence that is static. */
const char *address_parse(const char *text, struct sockaddr_storage *address, socklen_t *len) MUSTCHECK;

#endif
