# One Makefile, no recursion. Override on the command line: MODE=release|debug|asan|tsan, CC, BENCH.
# `make list` names the targets; objects live under build/$(MODE), the release binary is linked at bin/.
MODE  ?= release
CC    ?= cc
B     := build/$(MODE)$(if $(filter clang%,$(notdir $(CC))),-clang)
PKGS  := gsl hdf5 libfyaml jansson zlib libzstd
EXEC_PKGS := jansson libmicrohttpd zlib libpcre2-8 libutf8proc libcrypto libsodium sqlite3 libpq
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
# Line tables are what traces of the stack and sanitizers need; all else of -g doubles what is written and linked.
SYMBOLS := $(if $(filter debug,$(MODE)),-g,-g1)
# -ffp-contract=off: equal bits in every mode. -fno-math-errno: sqrt is an instruction, so shared/ needs no libm.
CFLAGS := -std=c11 -D_POSIX_C_SOURCE=200809L $(WARN) $(SYMBOLS) -MMD -MP -ffp-contract=off -fno-math-errno \
          $(CFLAGS_$(MODE)) $(EXTRA_CFLAGS)
LDFLAGS := $(CFLAGS_$(MODE)) $(EXTRA_CFLAGS)

# Outside headers come in as system headers, so that our warnings are about our code.
pkg_cflags = $(patsubst -I%,-isystem %,$(shell pkg-config --cflags $(1) 2>/dev/null))
pkg_libs   = $(shell pkg-config --libs $(1) 2>/dev/null)
HOST_CPPFLAGS := $(call pkg_cflags,$(PKGS))
HOST_LIBS     := $(call pkg_libs,$(PKGS)) -lm
EXEC_CPPFLAGS := $(call pkg_cflags,$(EXEC_PKGS))
EXEC_LIBS     := $(call pkg_libs,$(EXEC_PKGS)) -lm -ldl -pthread

# shared/host/ is what both programs share beside the core: command lines, texts; it may speak, the core may not.
HOST_SRC   := $(sort $(wildcard shared/host/*.c))
SHARED_SRC := $(filter-out $(HOST_SRC),$(sort $(wildcard shared/*/*.c)))
TRACES_SRC := $(sort $(wildcard traces/*.c))
SIM_SRC    := $(sort $(wildcard sim/*/*.c))
SIM_MAIN   := $(sort $(wildcard sim/*.c))
EXEC_SRC   := $(sort $(wildcard exec/*/*.c exec/*/*/*.c exec/*/*/*/*.c))
EXEC_MAIN  := $(sort $(wildcard exec/*.c))
TEST_SRC   := $(sort $(wildcard tests/*/test_*.c tests/*/*/test_*.c tests/*/*/*/test_*.c tests/*/*/*/*/test_*.c))
BENCH_SRC  := $(sort $(wildcard tests/bench/*.c))
# The cache lab's loop, once for each policy with the policy in it.
LOOP_OBJ   := $(patsubst shared/policy/evict_%.c,$(B)/sim/cachelab/loop_%.o,$(sort $(wildcard shared/policy/evict_*.c)))
obj         = $(patsubst %.c,$(B)/%.o,$(1))

# CUDA. The kernels run in tests under an emulation that a C++ compiler builds; nvcc, where it is, makes the library that
# berth-exec loads.
CXX        ?= g++
CUDA       ?= /usr/local/cuda
NVCC       ?= $(firstword $(wildcard $(CUDA)/bin/nvcc) $(shell command -v nvcc))
CUDA_SRC   := $(sort $(wildcard exec/engine/ops/cuda/*.cu)) $(addprefix exec/engine/device/cuda/,device_cuda.cu scratch.cu share.cu weights.cu)
EMU_SRC    := $(sort $(wildcard tests/emu/*.cc))
# Why the emulation cannot be built here; empty: it can.
NO_EMU     := $(if $(shell command -v $(CXX)),,no C++ compiler $(CXX))$(if $(filter x86_64,$(shell uname -m)),,fibers are switched on \
              x86-64 only)$(if $(filter tsan,$(MODE)),fibers are not for ThreadSanitizer)
EMU_TESTS  := $(if $(NO_EMU),,$(sort $(wildcard tests/exec/engine/cuda/test_*.cc)))
TESTS      := $(patsubst %.c,$(B)/%,$(if $(NO_EMU),$(filter-out tests/exec/engine/cuda/% tests/exec/hold/test_lending.c,$(TEST_SRC)),$(TEST_SRC))) $(EMU_TESTS:%.cc=$(B)/%)

.DEFAULT_GOAL := all
.SECONDARY:
.DELETE_ON_ERROR:

all: $(B)/bin/berth-sim $(B)/bin/berth-exec links ## build everything in MODE (default release)

# The floors: what a folder may include is what its -I says; `make floors` checks the rest.
$(B)/shared/%.o: CPPFLAGS := -Ishared
$(B)/traces/%.o: CPPFLAGS := -Ishared -Itraces $(HOST_CPPFLAGS)
$(B)/sim/%.o:    CPPFLAGS := -Ishared -Itraces -Isim $(HOST_CPPFLAGS)
$(B)/exec/%.o:   CPPFLAGS := -Ishared -Iexec $(EXEC_CPPFLAGS)
# A set of CPU kernels is one file with instructions of its own; -O3 for their inner loops, and no minutes of inlining for sanitizers.
KERNELS := $(B)/exec/engine/ops/cpu/kernels
$(KERNELS)_scalar.o $(KERNELS)_avx2.o $(KERNELS)_avx512bf16.o: CFLAGS += $(if $(filter release,$(MODE)),-O3 -DKERNELS_UNROLLED)
$(KERNELS)_scalar.o: CFLAGS += $(if $(filter release,$(MODE)),,-fno-inline)
ifeq ($(shell uname -m),x86_64)
$(KERNELS)_avx2.o: CFLAGS += -mavx2 -mfma -mf16c
$(KERNELS)_avx512bf16.o: CFLAGS += -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512bf16 -mfma
endif
$(B)/tests/%.o:  CPPFLAGS := -Ishared -Itraces -Isim -Itests $(HOST_CPPFLAGS) $(call pkg_cflags,$(TEST_PKGS))
$(B)/tests/exec/%.o: CPPFLAGS := -Ishared -Iexec -Itests $(EXEC_CPPFLAGS) $(call pkg_cflags,$(TEST_PKGS))

$(B)/libshared.a: $(call obj,$(SHARED_SRC))
$(B)/libhost.a:   $(call obj,$(HOST_SRC))
$(B)/libtraces.a: $(call obj,$(TRACES_SRC))
$(B)/libsim.a:    $(call obj,$(SIM_SRC)) $(LOOP_OBJ)
$(B)/libexec.a:   $(call obj,$(EXEC_SRC))
%.a:
	@mkdir -p $(@D)
	@rm -f $@
	@$(AR) rcs $@ $^

SIM_LIBS_OWN  := $(B)/libsim.a $(B)/libtraces.a $(B)/libshared.a $(B)/libhost.a $(B)/libshared.a
EXEC_LIBS_OWN := $(B)/libexec.a $(B)/libshared.a $(B)/libhost.a $(B)/libshared.a

$(B)/bin/berth-sim: $(call obj,$(SIM_MAIN)) $(SIM_LIBS_OWN)
	@mkdir -p $(@D)
	@echo "  LINK $@"
	@$(CC) $(LDFLAGS) -o $@ $(call obj,$(SIM_MAIN)) $(SIM_LIBS_OWN) $(HOST_LIBS)

$(B)/bin/berth-exec: $(call obj,$(EXEC_MAIN)) $(EXEC_LIBS_OWN)
	@mkdir -p $(@D)
	@echo "  LINK $@"
	@$(CC) $(LDFLAGS) -o $@ $(call obj,$(EXEC_MAIN)) $(EXEC_LIBS_OWN) $(EXEC_LIBS)

# Hundreds of test programs are linked with whole archives; where the quicker linker is (binutils has it), it does that.
GOLD := $(if $(shell command -v ld.gold),-fuse-ld=gold)
$(B)/tests/%: LDFLAGS += $(GOLD)

# A test program is its file, the other files of its folder (rigs), and tests/support.c.
.SECONDEXPANSION:
rig_of = $(call obj,$(filter-out test_% $(patsubst $(B)/%,%,$(1))/test_%,$(wildcard $(patsubst $(B)/%,%,$(1))/*.c)))
$(B)/tests/exec/%: $(B)/tests/exec/%.o $$(call rig_of,$$(@D)) $(B)/tests/support.o $(EXEC_LIBS_OWN)
	@$(CC) $(LDFLAGS) -o $@ $(filter %.o,$^) $(EXEC_LIBS_OWN) $(EXEC_LIBS) $(call pkg_libs,$(TEST_PKGS))
$(B)/tests/%: $(B)/tests/%.o $$(call rig_of,$$(@D)) $(B)/tests/support.o $(SIM_LIBS_OWN)
	@$(CC) $(LDFLAGS) -o $@ $(filter %.o,$^) $(SIM_LIBS_OWN) $(HOST_LIBS) $(call pkg_libs,$(TEST_PKGS))

comma := ,
# Calls that write go through the test, which makes them fail or kills the program there.
WRITING_CALLS := open write fsync close rename unlink unlinkat mkdir mkdtemp chmod rmdir
$(B)/tests/exec/engine/train/run/test_run_faults: LDFLAGS += $(WRITING_CALLS:%=-Wl,--wrap=%)
$(B)/tests/exec/store/test_store_faults: LDFLAGS += $(patsubst %,-Wl$(comma)--wrap=%,openat write fsync linkat unlinkat mkdirat)
# These run the program itself.
$(B)/tests/exec/control/api/test_kill_points $(B)/tests/exec/task/test_validator $(B)/tests/exec/task/test_trainer $(B)/tests/exec/keeper/test_keeper_vault $(B)/tests/exec/test_train_processes $(B)/tests/exec/test_hold_processes: | $(B)/bin/berth-exec
$(B)/tests/exec/test_hold_processes $(B)/tests/exec/control/api/test_gpus: | $(if $(NO_EMU),,$(B)/lib/libberth-cuda-emulated.so)

# A model server's answers are compared with those of a worker in the same process.
$(B)/tests/exec/serving/test_serving $(B)/tests/exec/serving/test_stub_server: $(B)/tests/exec/worker/rig.o
$(B)/tests/exec/serving/test_stub_server: | $(B)/tests/bench/exec/stub_server
$(B)/tests/exec/serving/test_serving: | $(B)/bin/berth-exec
# Its base is made by the program itself; the stub answers where a server is to be slow or to die.
$(B)/tests/exec/control/api/test_adapters $(B)/tests/exec/control/api/test_chat: | $(B)/bin/berth-exec $(B)/tests/bench/exec/stub_server

# Kernels under the emulation; nvcc lets types alias.
EMU_CXXFLAGS := -std=c++20 -fPIC -fno-strict-aliasing -Wall -Wextra -Werror $(SYMBOLS) -MMD -MP -ffp-contract=off -Ishared -Iexec -Itests $(CFLAGS_$(MODE)) $(EXTRA_CFLAGS)
$(B)/emu/%.o: %.cu
	@mkdir -p $(@D)
	@echo "  CXX  $<"
	@$(CXX) -x c++ $(EMU_CXXFLAGS) -c -o $@ $<
$(B)/emu/%.o: %.cc
	@mkdir -p $(@D)
	@echo "  CXX  $<"
	@$(CXX) $(EMU_CXXFLAGS) $(call pkg_cflags,$(TEST_PKGS)) -c -o $@ $<
$(B)/libemu.a: $(CUDA_SRC:%.cu=$(B)/emu/%.o) $(EMU_SRC:%.cc=$(B)/emu/%.o)
# The emulation as the library that berth-exec loads (BERTH_CUDA_LIBRARY): for tests that run the program itself.
$(B)/lib/libberth-cuda-emulated.so: $(B)/emu/exec/engine/device/cuda/entry.o $(B)/libemu.a
	@mkdir -p $(@D)
	@echo "  LINK $@"
	@$(CXX) $(LDFLAGS) -shared -o $@ $< -Wl,--whole-archive $(B)/libemu.a -Wl,--no-whole-archive -lm -pthread
# What the definitions need, and no more: the CPU's kernels take long to build.
REF_SRC := $(sort $(wildcard exec/engine/ops/ref/*.c)) exec/engine/device/ranks.c exec/engine/device/team.c exec/engine/device/word.c
EMU_LIBS_OWN := $(REF_SRC:%.c=$(B)/plain/%.o) $(B)/libemu.a $(B)/libshared.a
# Definitions are tested elsewhere; here they shall be quick.
$(B)/plain/%.o: %.c
	@mkdir -p $(@D)
	@echo "  CC   $<"
	@$(CC) -Ishared -Iexec $(filter-out $(CFLAGS_$(MODE)),$(CFLAGS)) -O2 -c -o $@ $<
$(B)/tests/exec/engine/cuda/%: $(B)/tests/exec/engine/cuda/%.o $$(call rig_of,$$(@D)) $(B)/tests/support.o $(EMU_LIBS_OWN)
	@$(CXX) $(LDFLAGS) -o $@ $(filter %.o %.a,$^) -lm -pthread $(call pkg_libs,$(TEST_PKGS))
# The whole model stands on the CPU's side too.
$(B)/tests/exec/engine/cuda/test_trainer: $(addprefix $(B)/tests/exec/engine/train/,rig.o jobs.o recorded.o)
$(addprefix $(B)/tests/exec/engine/cuda/,test_forward test_reference test_trainer): %: %.o $(B)/tests/support.o $(B)/libemu.a $(EXEC_LIBS_OWN)
	@$(CXX) $(LDFLAGS) -o $@ $(filter %.o,$^) $(B)/libemu.a $(EXEC_LIBS_OWN) $(EXEC_LIBS) $(call pkg_libs,$(TEST_PKGS))
$(B)/tests/exec/hold/test_lending: %: %.o $(B)/tests/exec/hold/lending.o $(B)/tests/support.o $(B)/libemu.a $(EXEC_LIBS_OWN)
	@$(CXX) $(LDFLAGS) -o $@ $(filter %.o,$^) $(B)/libemu.a $(EXEC_LIBS_OWN) $(EXEC_LIBS) $(call pkg_libs,$(TEST_PKGS))
$(EMU_TESTS:%.cc=$(B)/%): $(B)/%: $(B)/emu/%.o $$(call rig_of,$$(@D)) $(B)/tests/support.o $(EMU_LIBS_OWN)
	@mkdir -p $(@D)
	@$(CXX) $(LDFLAGS) -o $@ $(filter %.o %.a,$^) -lm -pthread $(call pkg_libs,$(TEST_PKGS))

# The library: every .cu for sm_80 and sm_90, and PTX for what comes after. ptxas may not spill; what it says of registers is kept
# for the goldens, as are the cubins.
NVCCFLAGS := -std=c++20 -O3 -Ishared -Iexec -gencode arch=compute_80,code=sm_80 -gencode arch=compute_90,code=[sm_90,compute_90] \
             -Xcompiler -fPIC,-fvisibility=hidden,-Wall,-Wextra -Xptxas -v,-warn-spills,-warn-lmem-usage,-Werror
CUDA_OBJ  := $(patsubst %.cu,build/cuda/%.o,$(CUDA_SRC) exec/engine/device/cuda/entry.cu exec/engine/device/cuda/ranks.cu)
build/cuda/%.o: %.cu
	@mkdir -p $(@D) build/cuda/keep/$(notdir $*)
	@echo "  NVCC $<"
	@$(NVCC) $(NVCCFLAGS) -MMD -MF $(@:.o=.d) -MT $@ --keep --keep-dir build/cuda/keep/$(notdir $*) -c -o $@ $< >$(@:.o=.log) 2>&1 || \
	    { cat $(@:.o=.log); rm -f $@; exit 1; }
$(B)/lib/libberth-cuda.so: $(CUDA_OBJ)
	@mkdir -p $(@D)
	@echo "  LINK $@"
	@$(NVCC) -shared -o $@ $^ -lcublas -Xlinker -rpath=$(CUDA)/lib64
ifeq ($(NVCC),)
cuda: ## build the CUDA library (needs nvcc)
	@echo "skip the CUDA library: nvcc is neither in $(CUDA)/bin nor on the path"
else
cuda: $(B)/lib/libberth-cuda.so
endif

cuda-goldens: cuda ## take what nvcc makes of the kernels, and how they reach memory, as the new goldens
	@BERTH_GOLDEN_WRITE=1 $(B)/tests/exec/engine/cuda/test_access
	@tests/cuda/resources.sh --write

# On a machine with a GPU: nvcc, make and libc are enough.
GPU_SRC := $(REF_SRC) shared/base/hash.c exec/engine/device/cuda_load.c \
           $(addprefix tests/exec/engine/cuda/,world.c both.c cases.c cases_train.c cases_back.c cases_attend_back.c promises.c promises_train.c) \
           tests/gpu/gpu.c tests/gpu/bench_train.c
build/gpu/%: tests/gpu/%.c $(GPU_SRC)
	@mkdir -p $(@D)
	@echo "  CC   $@"
	@$(CC) -std=gnu11 -O2 -g -Ishared -Iexec -Itests/exec/engine/cuda -Itests/exec/hold -Itests/gpu -o $@ $^ -lm -ldl -pthread
build/gpu/lend: exec/engine/device/mps.c exec/hold/hold.c exec/hold/loan.c exec/hold/peer.c exec/engine/model/place.c exec/engine/model/shared_base.c \
                exec/engine/files/refusal.c exec/engine/files/socket.c shared/host/words.c tests/exec/hold/lending.c
ifeq ($(NVCC),)
check-gpu: ## kernels on a GPU against their definitions, graphs, bits, compute-sanitizer; SKIP where there is none
	@echo "SKIP the checks on a GPU: nvcc is neither in $(CUDA)/bin nor on the path"
bench-gpu: ## speed on a GPU; SKIP where there is none
	@echo "SKIP the measurements on a GPU: nvcc is neither in $(CUDA)/bin nor on the path"
else
check-gpu: build/gpu/check build/gpu/lend $(B)/lib/libberth-cuda.so
	@BERTH_CUDA_LIBRARY=$(CURDIR)/$(B)/lib/libberth-cuda.so tests/gpu/check.sh build/gpu/check build/gpu/lend
bench-gpu: build/gpu/bench $(B)/lib/libberth-cuda.so
	@BERTH_CUDA_LIBRARY=$(CURDIR)/$(B)/lib/libberth-cuda.so tests/gpu/bench.sh build/gpu/bench
endif

# Profiles are tested with the rig of scenarios.
$(B)/tests/sim/hardware/test_profile: $(B)/tests/sim/scenario/rig.o

$(B)/%.o: %.c
	@mkdir -p $(@D)
	@echo "  CC   $<"
	@$(CC) $(CPPFLAGS) $(CFLAGS) -c -o $@ $<

$(LOOP_OBJ): $(B)/sim/cachelab/loop_%.o: sim/cachelab/loop.c shared/policy/evict_%.c
	@mkdir -p $(@D)
	@echo "  CC   $< ($*)"
	@$(CC) $(CPPFLAGS) $(CFLAGS) -DLAB_POLICY=$* -DLAB_POLICY_FILE='"policy/evict_$*.c"' -Devict_$*=loop_evict_$* -c -o $@ $<

.PHONY: up down benches cuda cuda-goldens check-gpu bench-gpu all links deps demo demo-run check check-unit tests check-ci floors list bench samples clean
# bin/ is what people use: the release build, whatever else was built after it.
links: $(B)/bin/berth-sim $(B)/bin/berth-exec
ifeq ($(MODE),release)
	@mkdir -p bin
	@ln -sfn ../$(B)/bin/berth-sim bin/berth-sim
	@ln -sfn ../$(B)/bin/berth-exec bin/berth-exec
endif

# What a bare Debian 12 lacks. Nothing happens when all are there.
DEPS := gcc g++ libc6-dev binutils pkg-config libgsl-dev libhdf5-dev libfyaml-dev libjansson-dev libmicrohttpd-dev zlib1g-dev libzstd-dev \
        libpcre2-dev libutf8proc-dev libssl-dev libsodium-dev libsqlite3-dev libpq-dev libcmocka-dev gnuplot-nox hdf5-tools curl zstd gzip
# Only the tests run these: the official client's. A Node from elsewhere may have brought its npm along.
NODE_DEPS := $(if $(shell command -v node),,nodejs) $(if $(shell command -v npm),,npm)
SUDO := $(shell [ "$$(id -u)" = 0 ] || echo sudo)
deps: ## install the Debian packages that are missing
	@missing=""; for package in $(DEPS); do \
	    dpkg-query -W -f '$${Status}' $$package 2>/dev/null | grep -q 'ok installed' || missing="$$missing $$package"; done; \
	if [ -n "$$missing" ]; then echo "installing:$$missing"; $(SUDO) apt-get update -qq && \
	    DEBIAN_FRONTEND=noninteractive $(SUDO) apt-get install -y -qq --no-install-recommends $$missing >/dev/null; fi

# The second make sees what the first has installed.
demo: deps ## install what is missing, build, run the main job, say where the report is
	@$(MAKE) --no-print-directory -j$$(nproc) MODE=release all
	@$(MAKE) --no-print-directory demo-run
demo-run:
	bin/berth-sim run scenarios/azure-conv.yaml --out demo-report/run.h5 --report demo-report

# What is printed is for eval; all else goes to stderr.
up: ## start the platform on this machine; prints BASE_URL, API_KEY and BASE_MODEL. BERTH_STATE: its folder; BERTH_PORT: its port
	@$(MAKE) --no-print-directory deps >&2
	@$(MAKE) --no-print-directory -j$$(nproc) MODE=release all >&2
	@exec/up.sh up $${BERTH_STATE:-build/up}
down: ## stop what make up started
	@exec/up.sh down $${BERTH_STATE:-build/up}

check: DEPS += $(NODE_DEPS)
check: deps ## install what is missing, build, run the tests (release and asan), at most ten minutes
	@$(MAKE) --no-print-directory -j$$(nproc) MODE=release all floors tests benches cuda
	@$(MAKE) --no-print-directory -j$$(nproc) MODE=debug build/debug/bin/berth-sim
	@$(MAKE) --no-print-directory -j$$(nproc) MODE=asan all tests
	@tests/run.sh --quick release asan

check-ci: deps ## the slower tests: clang, tsan, fuzzing
	@tests/check-ci.sh

tests: $(TESTS) ## build the test programs in MODE
check-unit: tests ## run the test programs of MODE
	@tests/run.sh --unit $(MODE)

floors: $(B)/libshared.a $(call obj,$(SHARED_SRC) $(HOST_SRC) $(TRACES_SRC) $(SIM_SRC) $(SIM_MAIN) $(EXEC_SRC) $(EXEC_MAIN)) ## who may include whom; no I/O in shared/
	@tests/floors.sh $(B)

samples: $(B)/traces/samples/make_samples ## make traces/samples anew
	$< traces/samples
$(B)/traces/samples/make_samples: $(B)/traces/samples/make_samples.o
	@$(CC) $(LDFLAGS) -o $@ $^ $(HOST_LIBS)

BENCHES := $(patsubst tests/bench/%.c,$(B)/tests/bench/%,$(BENCH_SRC) $(wildcard tests/bench/exec/*.c))
$(B)/tests/bench/exec/%.o: CPPFLAGS := -Ishared -Iexec -Itests
$(B)/tests/bench/exec/%: $(B)/tests/bench/exec/%.o $(EXEC_LIBS_OWN)
	@$(CC) $(LDFLAGS) -o $@ $< $(EXEC_LIBS_OWN) $(EXEC_LIBS)
$(B)/tests/bench/%: $(B)/tests/bench/%.o $(SIM_LIBS_OWN)
	@$(CC) $(LDFLAGS) -o $@ $< $(SIM_LIBS_OWN) $(HOST_LIBS)
benches: $(BENCHES)
bench: all $(BENCHES) ## speed, one JSON line each; BENCH=name for one of them
	@tests/bench.sh $(B) $(BENCH)

list: ## targets with a line each
	@grep -hE '^[a-z][a-z-]*:.*##' $(firstword $(MAKEFILE_LIST)) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 14

clean: ## remove everything built
	rm -rf build bin demo-report

-include $(shell find build -name '*.d' 2>/dev/null)
