/* The version of this build; the Makefile says which. */
#ifndef VANILLA_SHM_VERSION_H
#define VANILLA_SHM_VERSION_H

#ifndef VANILLA_VERSION
#define VANILLA_VERSION "0.1.0"
#endif

#endif
