/* Assertions for what cannot happen; never for what a peer, an operator or the machine can cause. */
#ifndef VANILLA_SHM_ASSERT_H
#define VANILLA_SHM_ASSERT_H

#include <stdio.h>
#include <stdlib.h>

/* The result of a call that can fail must be looked at. */
#define MUSTCHECK __attribute__((warn_unused_result))

#define assert_failed(what)                                                                             \
    do {                                                                                                \
        fprintf(stderr, "vanilla: %s:%d: %s: cannot happen: %s\n", __FILE__, __LINE__, __func__, what); \
        abort();                                                                                        \
    } while (0)

/* AN: "assert non-zero", AZ: "assert zero". They stay in release builds. */
#define AN(x)                          \
    do {                               \
        if (__builtin_expect(!(x), 0)) \
            assert_failed(#x);         \
    } while (0)
#define AZ(x)                           \
    do {                                \
        if (__builtin_expect(!!(x), 0)) \
            assert_failed("!(" #x ")"); \
    } while (0)

/* A long-lived object opens with `unsigned magic`; CHECK_OBJ where it enters a function. */
#define CHECK_OBJ(p, m) AN((p) != NULL && (p)->magic == (m))

#endif
