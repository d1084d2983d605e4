# make run     install what is needed, build, and serve the bundled model
# make build   the program: build/release/bin/tutti
# make test    install what is needed, build, and run every test
# make asan    the tests of the folders without sockets, under AddressSanitizer and UndefinedBehaviorSanitizer, long
#              ones shortened
# make fuzz    what reads messages and files, fed with what libFuzzer makes up: FUZZ_SECONDS=5 of it for each reader
# make tsan    actors and clusters with all their threads, under ThreadSanitizer, with a CAF that is built for it
# make neon    the kernels and their tests cross-compiled for 64-bit ARM, run by QEMU
# make avx512  the kernels' tests on an emulated CPU with AVX-512 and VNNI, for a machine without them
# make nightly what has the time: the long tests under the sanitizers too, NIGHTLY_SECONDS=600 for each reader, and the
#              tests of the kernels of other CPUs
# make soak    clients of all kinds at once against a server that has too few places: SOAK_SECONDS=1800
# make cluster-faults  a cluster whose engines are killed, stopped, cut off and frozen: FAULT_SECONDS=180
# make long-runs  thousands of sessions, thousands of idle streams, hours of one stream, clips joined to one
# make package  a Debian package of the program and the bundled model: build/release/tutti_*.deb
# make gpu-bundle  what bench/gpu_check.sh runs, for a machine with a GPU where it cannot be built: build/gpu_bundle.tar.gz
# make check   formatting, the rules between folders, and the tests that the documentation names
#
# CMAKE_ARGS is passed to CMake, for example CMAKE_ARGS=-DTUTTI_CUDA=ON.

SHELL := /bin/bash
JOBS ?= $(shell nproc)
BUILD := build/release
ASAN := build/asan
FUZZ := build/fuzz
TSAN := build/tsan
NEON := build/neon
FUZZ_SECONDS ?= 5
NIGHTLY_SECONDS ?= 600
SOAK_SECONDS ?= 1800
FAULT_SECONDS ?= 180
PURE := $(wildcard $(addprefix tests/,config audio gpu decode cache model engine proto fuzz))
THREAD_TESTS := service_test cluster_services_test
KERNEL_TESTS := gpu_conformance_test gpu_kernel_test
# Without what any machine runs, and without the largest products and convolutions, which take an emulator an hour.
AVX512_TESTS := --gtest_brief=1 '--gtest_filter=-*CudaOnHost*:*_portable:*_avx2:*/Cpu:*/CpuOnednn:*LinearConformance.Matches*:$\
  *LinearRow*:*Subsampling*:Norms/*:Formats/*'
NODE_TESTS := $(patsubst %/package-lock.json,%/node_modules,$(wildcard tests/*/package-lock.json))
CTEST := ctest --output-on-failure -j$(JOBS)

# Rebuilds are quick where ccache is installed; without it the variable is empty and ignored. It keeps what uses the
# precompiled header of the tests only if told that these two do no harm.
export CMAKE_CXX_COMPILER_LAUNCHER := $(shell command -v ccache)
export CCACHE_SLOPPINESS ?= pch_defines,time_macros

.PHONY: run build test asan fuzz tsan neon avx512 nightly soak cluster-faults long-runs package gpu-bundle check configure
.PHONY: install install-tests install-fuzz install-neon install-avx512
.NOTPARALLEL:

run: install build
	$(BUILD)/bin/tutti serve

build: configure
	cmake --build $(BUILD) -j$(JOBS) --target tutti

test: install-tests configure $(NODE_TESTS)
	cmake --build $(BUILD) -j$(JOBS)
	$(CTEST) --test-dir $(BUILD)

asan: install
	cmake --preset asan $(CMAKE_ARGS)
	cmake --build $(ASAN) -j$(JOBS) --target $(addsuffix /all,$(PURE))
	set -e; for folder in $(PURE); do $(CTEST) --test-dir $(ASAN)/$$folder; done

fuzz: install-fuzz
	cmake --preset fuzz
	cmake --build $(FUZZ) -j$(JOBS)
	scripts/fuzz.sh $(FUZZ) $(FUZZ_SECONDS)

tsan: install
	scripts/build-caf.sh $(TSAN)-caf -fsanitize=thread
	cmake --preset tsan $(CMAKE_ARGS)
	cmake --build $(TSAN) -j$(JOBS) --target $(THREAD_TESTS)
	set -e; for test in $(THREAD_TESTS); do $(TSAN)/bin/$$test --gtest_brief=1; done

neon: install-neon
	cmake --preset neon $(CMAKE_ARGS)
	cmake --build $(NEON) -j$(JOBS)
	$(CTEST) --test-dir $(NEON)

avx512: install-avx512 configure
	cmake --build $(BUILD) -j$(JOBS) --target $(KERNEL_TESTS)
	set -e; for test in $(KERNEL_TESTS); do scripts/emulate-avx512.sh $(BUILD)/bin/$$test $(AVX512_TESTS); done

nightly:
	$(MAKE) asan TUTTI_LONG_TESTS=1
	$(MAKE) fuzz FUZZ_SECONDS=$(NIGHTLY_SECONDS)
	$(MAKE) tsan
	$(MAKE) neon
	$(MAKE) avx512
	$(MAKE) soak SOAK_SECONDS=180
	$(MAKE) cluster-faults
	$(MAKE) long-runs

soak: install-tests build
	cmake --build $(BUILD) -j$(JOBS) --target clip_to_pcm
	bench/soak.py --seconds $(SOAK_SECONDS)

cluster-faults: install-tests build
	cmake --build $(BUILD) -j$(JOBS) --target clip_to_pcm
	bench/cluster_faults.py --seconds $(FAULT_SECONDS)

long-runs: install-tests build
	cmake --build $(BUILD) -j$(JOBS) --target clip_to_pcm
	set -e; for what in cycles idle hours joined; do bench/long_run.py $$what; done

package: install build
	cd $(BUILD) && cpack

gpu-bundle: install-tests configure
	cmake --build $(BUILD) -j$(JOBS) --target tutti gpu_conformance_test cuda_engine_test
	scripts/gpu-bundle.sh $(BUILD)

check:
	scripts/check-format.sh
	scripts/check-layers.py
	scripts/check-documented-tests.py

install:
	scripts/install-deps.sh

install-tests:
	scripts/install-deps.sh --tests

install-fuzz:
	scripts/install-deps.sh --fuzz

install-neon install-avx512:
	scripts/install-deps.sh $(@:install-%=--%)

configure:
	cmake --preset release $(CMAKE_ARGS)

%/node_modules: %/package-lock.json
	cd $(@D) && npm ci --no-audit --no-fund
	touch $@
