/* The server's figures, as far as they can be had. */
#ifndef VANILLA_CTL_FIGURES_H
#define VANILLA_CTL_FIGURES_H

#include "ctl/ctl.h"
#include "shm/segment.h"

/* Reads the segment of ctl_runtime_dir.  CTL_DONE: *sp is set.  CTL_NOT_RUNNING: with *sp set, the figures are what an
 * ended server left, stderr says so and since when, and the command prints them and returns this; with *sp NULL there
 * is nothing.  CTL_FAILED: *sp is NULL and stderr says why.  The caller closes *sp. */
enum ctl_exit figures_open(const struct ctl *ctl, struct segment **sp) MUSTCHECK;

/* Opens, prints, closes: most commands are this. */
enum ctl_exit figures_print(const struct ctl *ctl, void (*print)(const struct segment *s));

#endif
