/* trusted_proxies: networks, as in 10.0.0.0/8. */
#ifndef VANILLA_CONF_NET_H
#define VANILLA_CONF_NET_H

#include <libconfig.h>

#include "conf/conf.h"
#include "conf/options.h"

/* Reads trusted_proxies out of the file's tree into conf; problems are reported. */
void nets_read(const struct reader *rd, const config_setting_t *root, struct conf *conf);

/* Makes a network of "ADDRESS" or "ADDRESS/BITS", of either version.  NULL, or what is wrong with it and what is
 * allowed, a sentence that is static. */
const char *net_parse(const char *text, struct conf_net *net) MUSTCHECK;

/* Whether the address (IPv4 mapped) is in the network. */
bool net_has(const struct conf_net *net, const struct in6_addr *address);

#endif
