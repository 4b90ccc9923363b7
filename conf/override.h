/* -o KEY=VALUE: one setting of the command line, put into the tree before it is checked. */
#ifndef VANILLA_CONF_OVERRIDE_H
#define VANILLA_CONF_OVERRIDE_H

#include <libconfig.h>

#include "conf/report.h"

/* Puts `text` ("limits.headers=50", "pools.[0].max_inflight=16") into the tree; groups on the way that the file does
 * not have are made, elements of lists must be there.  VALUE is read as the file's values are; what is none, or is no
 * string where the setting wants one, is taken as a string as it stands.  Later checks of the setting are reported at
 * this -o; `text` must live as long as the tree.  What is wrong is reported. */
void override_apply(config_t *tree, const char *text, struct report *r);

#endif
