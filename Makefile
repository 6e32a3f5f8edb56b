# One Makefile, no recursion. Override on the command line: MODE=release|debug|asan|tsan, CC, BENCH.
# `make list` names the targets; objects live under build/$(MODE), the binaries of the last build are linked at bin/.
MODE  ?= release
CC    ?= cc
B     := build/$(MODE)$(if $(filter clang%,$(notdir $(CC))),-clang)
PKGS  := gsl hdf5 libfyaml jansson zlib libzstd
# Only tests use these.
TEST_PKGS := cmocka

WARN   := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes \
          -Wvla -Wpointer-arith -Wcast-qual -Werror
CFLAGS_release := -O2
CFLAGS_debug   := -O0
CFLAGS_asan    := -O1 -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
CFLAGS_tsan    := -O1 -fsanitize=thread
ifeq ($(origin CFLAGS_$(MODE)),undefined)
$(error MODE=$(MODE) is unknown: release, debug, asan or tsan)
endif
# -ffp-contract=off: equal bits in every mode. -fno-math-errno: sqrt is an instruction, so shared/ needs no libm.
CFLAGS := -std=c11 -D_POSIX_C_SOURCE=200809L $(WARN) -g -MMD -MP -ffp-contract=off -fno-math-errno \
          $(CFLAGS_$(MODE)) $(EXTRA_CFLAGS)
LDFLAGS := $(CFLAGS_$(MODE)) $(EXTRA_CFLAGS)

# Outside headers come in as system headers, so that our warnings are about our code.
pkg_cflags = $(patsubst -I%,-isystem %,$(shell pkg-config --cflags $(1) 2>/dev/null))
pkg_libs   = $(shell pkg-config --libs $(1) 2>/dev/null)
HOST_CPPFLAGS := $(call pkg_cflags,$(PKGS))
HOST_LIBS     := $(call pkg_libs,$(PKGS)) -lm

SHARED_SRC := $(sort $(wildcard shared/*/*.c))
TRACES_SRC := $(sort $(wildcard traces/*.c))
SIM_SRC    := $(sort $(wildcard sim/*/*.c))
SIM_MAIN   := $(sort $(wildcard sim/*.c))
TEST_SRC   := $(sort $(wildcard tests/*/test_*.c tests/*/*/test_*.c))
TEST_LIB   := $(sort $(filter-out $(TEST_SRC) tests/bench/%,$(wildcard tests/*.c tests/*/*.c tests/*/*/*.c)))
BENCH_SRC  := $(sort $(wildcard tests/bench/*.c))
obj         = $(patsubst %.c,$(B)/%.o,$(1))
TESTS      := $(patsubst %.c,$(B)/%,$(TEST_SRC))

.DEFAULT_GOAL := all
.SECONDARY:
.DELETE_ON_ERROR:

all: $(B)/bin/berth-sim links ## build everything in MODE (default release)

# The floors: what a folder may include is what its -I says; `make floors` checks the rest.
$(B)/shared/%.o: CPPFLAGS := -Ishared
$(B)/traces/%.o: CPPFLAGS := -Ishared -Itraces $(HOST_CPPFLAGS)
$(B)/sim/%.o:    CPPFLAGS := -Ishared -Itraces -Isim $(HOST_CPPFLAGS)
$(B)/tests/%.o:  CPPFLAGS := -Ishared -Itraces -Isim -Itests $(HOST_CPPFLAGS) $(call pkg_cflags,$(TEST_PKGS))

$(B)/libshared.a: $(call obj,$(SHARED_SRC))
$(B)/libtraces.a: $(call obj,$(TRACES_SRC))
$(B)/libsim.a:    $(call obj,$(SIM_SRC))
$(B)/libtest.a:   $(call obj,$(TEST_LIB))
%.a:
	@mkdir -p $(@D)
	@rm -f $@
	@$(AR) rcs $@ $^

$(B)/bin/berth-sim: $(call obj,$(SIM_MAIN)) $(B)/libsim.a $(B)/libtraces.a $(B)/libshared.a
	@mkdir -p $(@D)
	@echo "  LINK $@"
	@$(CC) $(LDFLAGS) -o $@ $^ $(HOST_LIBS)

$(B)/tests/%: $(B)/tests/%.o $(B)/libtest.a $(B)/libsim.a $(B)/libtraces.a $(B)/libshared.a
	@$(CC) $(LDFLAGS) -o $@ $^ $(HOST_LIBS) $(call pkg_libs,$(TEST_PKGS))

# BUILD_ID names what made a result; the file changes only when the text does.
$(B)/%.o: %.c
	@mkdir -p $(@D)
	@echo "  CC   $<"
	@$(CC) $(CPPFLAGS) $(CFLAGS) -c -o $@ $<

.PHONY: all links deps demo check check-unit floors list bench clean
links: $(B)/bin/berth-sim
	@mkdir -p bin
	@ln -sfn ../$(B)/bin/berth-sim bin/berth-sim

list: ## targets with a line each
	@grep -hE '^[a-z][a-z-]*:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 14

clean: ## remove everything built
	rm -rf build bin

-include $(shell find build -name '*.d' 2>/dev/null)
