# vanilla.  `make` builds build/vanilla and build/vanillactl, `make run` shows them at work in front of a throwaway
# PostgreSQL, `make test` runs everything that CI runs.  `make help` lists the rest.
#
# Variants go to folders of their own: ASAN=1 UBSAN=1 (sanitizers), POISON=1 (buffers that were given back are
# overwritten), NOFREE=1 (free() does nothing: what remains is what was allocated), PLANT=1 (leaks to be found by the
# profiling harnesses), TSAN=1.  CC=clang works; V=1 shows commands.

VERSION := 0.1.0

ifeq ($(origin CC),default)
CC := gcc
endif
PREFIX     ?= /usr/local
SYSCONFDIR ?= /etc
SBINDIR    ?= $(PREFIX)/sbin
BINDIR     ?= $(PREFIX)/bin
MANDIR     ?= $(PREFIX)/share/man
UNITDIR    ?= $(PREFIX)/lib/systemd/system
SYSUSERSDIR ?= $(PREFIX)/lib/sysusers.d
Q          := $(if $(V),,@)
.DEFAULT_GOAL := all

# --- where to -------------------------------------------------------------------------------------------------------

B ?= build$(if $(ASAN),-asan)$(if $(UBSAN),-ubsan)$(if $(TSAN),-tsan)$(if $(PLANT),-plant)$(if $(NOFREE),-nofree)$(if $(LIBC_MALLOC),-libcmalloc)$(if $(ASAN),,$(if $(POISON),-poison))

# --- what with ------------------------------------------------------------------------------------------------------

# evdns lives in libevent_extra, everything else in libevent_core; openssl for the SSL * that libpq hands out.
MODULES := libevent_core libevent_extra libpq libconfig openssl

# These goals compile nothing themselves; all others need the libraries' headers.
NO_BUILD := clean deps run test help format check-format lint
ifneq ($(filter-out $(NO_BUILD),$(or $(MAKECMDGOALS),all)),)
ifneq ($(shell pkg-config --exists $(MODULES) 2>/dev/null && echo found),found)
$(error Development files are missing: `make deps` installs them (as root), or install the Debian packages that \
`tests/deps.sh --list` names)
endif
endif

# Each warning with its reason.  -Wall -Wextra -Werror: if the compiler can nag, let it.
WARN := -Wall -Wextra -Werror
WARN += -Wshadow                # a name means one thing
WARN += -Wstrict-prototypes     # f() is not f(void)
WARN += -Wmissing-prototypes    # what is not in a header is static
WARN += -Wold-style-definition
WARN += -Wpointer-arith         # void * has no size
WARN += -Wwrite-strings         # string literals are const
WARN += -Wcast-qual             # const is not cast away in silence
WARN += -Wformat=2              # format strings are literals and fit
WARN += -Wundef                 # a misspelt macro in #if is not 0
WARN += -Wvla                   # the stack's size is known
WARN += -Wimplicit-fallthrough  # falling through a case is said
ifeq ($(findstring clang,$(CC)),)
WARN += -Wduplicated-cond -Wlogical-op  # copies that were meant to be changed
ifeq ($(ASAN)$(UBSAN)$(TSAN),)
WARN += -Wnull-dereference      # along the optimizer's paths; the sanitizers' own checks mislead it
endif
endif

CPPFLAGS := -I. -D_GNU_SOURCE -DVANILLA_VERSION='"$(VERSION)"' $(if $(NOFREE),-DNOFREE) $(if $(PLANT),-DVANILLA_PLANT) \
            $(if $(LIBC_MALLOC),-DVANILLA_LIBC_MALLOC) \
            $(if $(ASAN)$(POISON),-DVANILLA_POISON) $(shell pkg-config --cflags $(MODULES) 2>/dev/null)
CFLAGS   := -std=gnu11 -O2 -g $(WARN)
LDFLAGS  :=
# The request path runs through many small files: in a release build the compiler sees all of them at once, and may inline.
INLINE   := --param max-inline-insns-auto=300 --param inline-unit-growth=300 --param large-function-growth=1000 \
            --param inline-min-speedup=2 --param max-inline-insns-single=2000
LTO      := $(if $(ASAN)$(UBSAN)$(TSAN)$(POISON)$(NOFREE)$(PLANT)$(LIBC_MALLOC),,$(if $(findstring clang,$(CC)),,-O3 -fno-plt -flto=auto -ffat-lto-objects $(INLINE)))
NOLTO    := $(if $(LTO),-fno-lto)# for the many small programs, which would take long to link
LIBS     := $(shell pkg-config --libs $(MODULES) 2>/dev/null)

# Hardening of a program that faces a network.
CFLAGS  += -fPIE -fstack-protector-strong -fstack-clash-protection
LDFLAGS += -pie -Wl,-z,relro,-z,now,-z,noexecstack
ifneq ($(filter x86_64%,$(shell $(CC) -dumpmachine)),)
CFLAGS  += -fcf-protection
endif
ifeq ($(ASAN),)
CPPFLAGS += -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2  # AddressSanitizer checks the same, with the real sizes
endif

SANITIZE := $(if $(ASAN),-fsanitize=address) $(if $(TSAN),-fsanitize=thread) $(if $(UBSAN),-fsanitize=undefined -fno-sanitize-recover=undefined)
ifneq ($(strip $(SANITIZE)),)
CFLAGS  += $(SANITIZE) -fno-omit-frame-pointer
LDFLAGS += $(SANITIZE)
endif

# --- what from ------------------------------------------------------------------------------------------------------

MAINS    := master/main.c ctl/vanillactl.c
SHARED   := $(wildcard shm/*.c)
CTL      := $(filter-out $(MAINS),$(wildcard ctl/*.c))
SERVER   := $(filter-out $(MAINS),$(wildcard conf/*.c worker/*.c worker/*/*.c master/*.c))
UNIT     := $(wildcard tests/unit/test_*.c)
FUZZ     := $(wildcard tests/fuzz/fuzz_*.c)
OWN      := $(wildcard shm/*.[ch] conf/*.[ch] worker/*.[ch] worker/*/*.[ch] ctl/*.[ch] master/*.[ch] tests/*/*.[ch])

objects   = $(patsubst %.c,$(B)/obj/%.o,$(1))
UNIT_BIN := $(patsubst tests/unit/%.c,$(B)/unit/%,$(UNIT))
FUZZ_BIN := $(patsubst tests/fuzz/%.c,$(B)/fuzz/%,$(FUZZ))

.PHONY: all deps run test quick unit bench fuzz fuzz-corpus fuzzers load lint format check-format analyze profile-allocs profile-instructions \
        profile-rss profile-plants profile-memory profilers asan tsan valgrind heaptrack massif helgrind install clean help FORCE
.SECONDARY:
.DELETE_ON_ERROR:

all: $(B)/vanilla $(B)/vanillactl

$(B)/vanilla: $(call objects,master/main.c) $(B)/libvanilla.a
	@echo "  LD  $@"
	$(Q)$(CC) $(CFLAGS) $(LTO) $(LDFLAGS) -o $@ $^ $(LIBS)

# Objects and not the archive: vanillactl keeps libc's own malloc, which the archive would replace.
$(B)/vanillactl: $(call objects,ctl/vanillactl.c $(CTL) $(SHARED))
	@echo "  LD  $@"
	$(Q)$(CC) $(CFLAGS) $(NOLTO) $(LDFLAGS) -o $@ $^

# All but the mains, for tests: a test that includes a .c has its symbols, so the archive's copy stays out.
$(B)/libvanilla.a: $(call objects,$(SHARED) $(CTL) $(SERVER))
	@rm -f $@
	$(Q)$(AR) rcs $@ $^

$(B)/obj/%.o: %.c $(B)/flags
	@mkdir -p $(@D)
	@echo "  CC  $<"
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) $(LTO) -MMD -MP -c -o $@ $<

# cmocka's assertions do not tell the compiler that they do not return.
$(B)/obj/tests/unit/%.o: private CFLAGS += -Wno-null-dereference
# Tests are compiled as they are written: no hot paths here, and their fixed inputs would make the inliner's warnings foolish.
$(B)/obj/tests/%.o: private LTO :=

# Other flags or another compiler: everything anew.
$(B)/flags: FORCE
	@mkdir -p $(B)
	@printf '%s\n' '$(subst ','\'',$(CC) $(CPPFLAGS) $(CFLAGS) $(LTO))' | cmp -s - $@ || \
	 printf '%s\n' '$(subst ','\'',$(CC) $(CPPFLAGS) $(CFLAGS) $(LTO))' >$@

-include $(wildcard $(B)/obj/*/*.d $(B)/obj/*/*/*.d)

# --- tests ----------------------------------------------------------------------------------------------------------

$(B)/unit/%: $(B)/obj/tests/unit/%.o $(B)/libvanilla.a
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(NOLTO) $(LDFLAGS) -o $@ $^ $(LIBS) -lcmocka

# One test by hand: `make build/unit/test_parse && build/unit/test_parse`.
unit: $(UNIT_BIN)
	$(Q)tests/run/unit.py $(UNIT_BIN)

# The corpora, with the ordinary compiler (and whatever sanitizers this build has).
$(B)/fuzz/fuzz_%: $(B)/obj/tests/fuzz/fuzz_%.o $(B)/obj/tests/fuzz/standalone.o $(B)/libvanilla.a
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(NOLTO) $(LDFLAGS) -o $@ $^ $(LIBS)

fuzz-corpus: $(FUZZ_BIN)
	$(Q)tests/run/fuzz.py corpus $(FUZZ_BIN)

# Coverage-guided, with clang: `make fuzz TIME=600` gives each target ten minutes.  Findings stay in build-fuzz/.
TIME ?= 60
fuzz:
	$(Q)$(MAKE) --no-print-directory CC=clang B=build-fuzz ASAN=1 UBSAN=1 FUZZER=1 fuzzers
	$(Q)tests/run/fuzz.py search $(TIME) $(FUZZ:tests/fuzz/%.c=build-fuzz/search/%)

ifdef FUZZER
CFLAGS += -fsanitize=fuzzer-no-link
$(B)/search/%: $(B)/obj/tests/fuzz/%.o $(B)/libvanilla.a
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -fsanitize=fuzzer -o $@ $^ $(LIBS)
endif
fuzzers: $(FUZZ:tests/fuzz/%.c=$(B)/search/%)

# An HTTP client that makes an exact number of requests.
load: $(B)/load
$(B)/load: $(B)/obj/tests/profile/load.o
	$(Q)$(CC) $(CFLAGS) $(NOLTO) $(LDFLAGS) -o $@ $^

# Preloaded into what runs under callgrind, to begin when the warm-up is over.
$(B)/switch.so: tests/profile/switch.c
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(WARN) -std=gnu11 -O2 -g -fPIC -shared -o $@ $<

# What is claimed about memory, measured; tests/profile/README.md tells how.  ARGS="--shapes churn --json" goes to the script.
profilers: load $(B)/switch.so
profile-allocs: all profilers
	$(Q)VANILLA_BIN=$(B) tests/profile/allocs.py $(ARGS)
profile-instructions: all load
	$(Q)VANILLA_BIN=$(B) tests/profile/instructions.py
profile-rss: all profilers
	$(Q)tests/profile/rss.py $(ARGS)
profile-plants: all profilers
	$(Q)tests/profile/plants.py $(ARGS)
# `make profile-memory messages`: one part of it.
profile-memory: all profilers
	$(Q)VANILLA_BIN=$(B) tests/profile/memory.py $(filter connections messages stability all,$(MAKECMDGOALS)) $(ARGS)
ifneq ($(filter profile-memory,$(MAKECMDGOALS)),)
.PHONY: connections messages stability
connections messages stability: profile-memory
	@:
endif

# Other people's tools, with the recipe for each: tests/profile/README.md has their caveats.
# cache_threads.c includes the cache, whose steps it takes one by one.
$(B)/counters_threads: $(call objects,tests/profile/counters_threads.c tests/profile/cache_threads.c $(filter-out shm/cache.c,$(SHARED)))
	$(Q)$(CC) $(CFLAGS) $(NOLTO) $(LDFLAGS) -o $@ $^ -pthread
asan:
	$(Q)$(MAKE) --no-print-directory ASAN=1 UBSAN=1 all
	$(Q)tests/deps.sh test
	$(Q)VANILLA_BIN=build-asan-ubsan /usr/bin/python3 -B -m pytest -q -p no:cacheprovider tests/e2e
tsan:
	$(Q)$(MAKE) --no-print-directory TSAN=1 build-tsan/counters_threads
	$(Q)TSAN_OPTIONS=halt_on_error=1 setarch -R build-tsan/counters_threads $(ARGS)
valgrind heaptrack massif helgrind: all profilers $(B)/counters_threads
	$(Q)tests/deps.sh profile
	$(Q)VANILLA_BIN=$(B) tests/profile/tools.py $@ $(ARGS)

# Ratios between ways of doing it, measured in turns; needs wrk, and nginx for a peer.  `make bench BENCH='--short batch'`.
BENCH ?=
bench: all
	$(Q)VANILLA_BIN=$(B) tests/bench/bench.py $(BENCH)

lint:
	$(Q)tests/run/lint.py

check-format:
	$(Q)clang-format --dry-run -Werror $(OWN)

format:
	$(Q)clang-format -i $(OWN)

# gcc -fanalyzer and clang-tidy (.clang-tidy) over the sources, which are clean under both: a few minutes.  QUICK=1, as in
# `make test`: without clang's own analyzer, which takes most of them.
analyze:
	$(Q)tests/run/analyze.sh $(if $(QUICK),--quick) $(filter-out tests/%,$(filter %.c,$(OWN))) -- $(CPPFLAGS)

# For every commit.
quick: all lint unit

# Everything.
test:
	$(Q)tests/deps.sh test
	$(Q)tests/run/all.py

# --- show, install, clean -------------------------------------------------------------------------------------------

export PORT ADMIN_PORT ROWS

run:
	$(Q)tests/deps.sh run
	$(Q)$(MAKE) --no-print-directory all
	$(Q)tests/run/demo.py $(B)

deps:
	$(Q)tests/deps.sh test

MAN := $(wildcard */*.[158])

install: all
	install -D -m 755 $(B)/vanilla $(DESTDIR)$(SBINDIR)/vanilla
	install -D -m 755 $(B)/vanillactl $(DESTDIR)$(BINDIR)/vanillactl
	for page in $(MAN); do \
	    install -D -m 644 $$page $(DESTDIR)$(MANDIR)/man$${page##*.}/$${page##*/} || exit 1; done
	test -e $(DESTDIR)$(SYSCONFDIR)/vanilla/vanilla.conf || \
	    install -D -m 640 conf/vanilla.conf $(DESTDIR)$(SYSCONFDIR)/vanilla/vanilla.conf
	install -d $(DESTDIR)$(UNITDIR)
	sed -e 's|/usr/local/sbin/|$(SBINDIR)/|g' -e 's|/usr/local/bin/|$(BINDIR)/|g' -e 's|/etc/vanilla/|$(SYSCONFDIR)/vanilla/|g' \
	    conf/vanilla.service >$(DESTDIR)$(UNITDIR)/vanilla.service
	chmod 644 $(DESTDIR)$(UNITDIR)/vanilla.service
	install -D -m 644 conf/vanilla.sysusers $(DESTDIR)$(SYSUSERSDIR)/vanilla.conf

clean:
	rm -rf build build-*

help:
	@echo 'all run test quick unit lint fuzz fuzz-corpus analyze format check-format deps install clean'
	@echo 'bench profile-allocs profile-rss profile-memory [connections|messages|stability] profile-plants profile-instructions'
	@echo 'asan tsan valgrind heaptrack massif helgrind'
	@echo 'ASAN=1 UBSAN=1 TSAN=1 POISON=1 NOFREE=1 PLANT=1 CC=clang V=1 | run: PORT= ADMIN_PORT= ROWS= | fuzz: TIME= | install: DESTDIR= PREFIX='
