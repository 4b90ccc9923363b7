/* Does a value fit its row of the table: type, range, choices? */
#ifndef VANILLA_CONF_FIT_H
#define VANILLA_CONF_FIT_H

#include <libconfig.h>
#include <stdbool.h>

#include "conf/options.h"
#include "conf/report.h"

/* If not, what is wrong and what is allowed is reported (r NULL: is not). */
bool fit_option(struct report *r, const struct option *o, const config_setting_t *member);

/* Which of the choices the word is, from 0, or -1. */
int fit_choice(const struct option *o, const char *word);

#endif
