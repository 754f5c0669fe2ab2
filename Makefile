# What each target does is said beside it; `make` alone prints that list.

GO        ?= go
PREFIX    ?= $(if $(filter 0,$(shell id -u)),/usr/local,$(HOME)/.local)
VERSION   ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
LDFLAGS   := -X main.version=$(VERSION)
TESTFLAGS ?=
SHORT     ?= -short
FUZZTIME  ?= 20s
COUNT     ?= 10

# Everything but the tests with real mounts and real clients.
UNIT = $(shell $(GO) list ./... | grep -v '/integration')

# The Python clients, where setup has made them: looked for when a recipe runs.
VENV = TARN_TEST_VENV="$${TARN_TEST_VENV:-$$([ ! -e .venv ] || echo '$(CURDIR)/.venv')}"

# fail SENTENCE: for a target that has nothing to run yet.
fail = { echo "make $@: $(1)" >&2; exit 1; }

.DEFAULT_GOAL := help
.PHONY: help demo install build setup unit test race lint integration faults fuzz mutants bench stress soak slatedb cover clean

help: ## print this list
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):[^#]*## /\1\t/' | expand -t 14

demo: build ## build, and show the walk-through of the README in a temporary folder
	@integration/setup/setup.sh clients
	integration/setup/demo.sh

build: ## build bin/tarn (as root, installs the compilers it lacks)
	@integration/setup/setup.sh compiler
	$(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/tarn ./cmd/tarn

install: build ## put tarn on the PATH, and its manual page beside it (PREFIX=/usr/local as root, else ~/.local)
	install -d '$(DESTDIR)$(PREFIX)/bin'
	install -m 755 bin/tarn '$(DESTDIR)$(PREFIX)/bin/tarn'
	install -d '$(DESTDIR)$(PREFIX)/share/man/man1'
	bin/tarn man > '$(DESTDIR)$(PREFIX)/share/man/man1/tarn.1'
	@case ":$$PATH:" in *":$(PREFIX)/bin:"*) ;; *) echo 'put it on the PATH: export PATH="$(PREFIX)/bin:$$PATH"' ;; esac

setup: ## install what tests need: Debian packages (as root), Python clients, object stores
	@integration/setup/setup.sh

# Those that take seconds each or start servers are left to `make test`.
unit: ## unit tests: seconds (those that ask a real client are skipped before `make setup`)
	$(VENV) $(GO) test $(SHORT) $(TESTFLAGS) -timeout 30m $(UNIT)

# The servers and clients of the tests are heavy: one package at a time. Those
# that run at once do so because they wait.
integration: setup ## tests with real mounts, real clients and kill -9
	$(VENV) $(GO) test $(TESTFLAGS) -p 1 -parallel 8 -timeout 50m $(shell $(GO) list ./integration/... | grep -v '/soak')

test: ## every test: unit (slow ones, too) and integration, clients installed first
	@$(MAKE) --no-print-directory setup
	@$(MAKE) --no-print-directory unit SHORT=
	@$(MAKE) --no-print-directory integration

race: ## unit tests with the race detector
	$(VENV) $(GO) test -race $(TESTFLAGS) -timeout 60m $(UNIT)

# staticcheck runs where go.mod pins it as a tool.
lint: ## gofmt, go vet (each build tag too), staticcheck
	@bad=$$(gofmt -l $$(git ls-files -co --exclude-standard '*.go')); [ -z "$$bad" ] || { echo "not formatted by gofmt:"; echo "$$bad"; exit 1; }
	$(GO) vet ./...
	$(GO) vet -tags faults ./...
	@[ ! -e engine/kv/slatekv/lib/libslatedb_c.a ] || { echo "$(GO) vet -tags slatedb ./engine/kv/..."; $(GO) vet -tags slatedb ./engine/kv/...; }
	@if $(GO) tool -n staticcheck >/dev/null 2>&1; then echo "$(GO) tool staticcheck ./..."; $(GO) tool staticcheck ./...; else echo "staticcheck is no tool of go.mod: not run"; fi

faults: ## kill the process at each of its named steps
	$(GO) test -tags faults $(TESTFLAGS) -timeout 30m -run 'TestDeathAtEachStep|TestHostDies|TestCounter|TestPointKills|TestRecord' ./engine ./engine/fault

fuzz: ## each fuzz test for FUZZTIME (20s)
	@found=; \
	for dir in $$(grep -rlE '^func Fuzz' --include='*_test.go' . | xargs -r -n1 dirname | sort -u); do \
	  for f in $$($(GO) test -list '^Fuzz' $$dir | grep '^Fuzz'); do \
	    found=1; echo "$$dir $$f"; \
	    $(GO) test -run '^$$' -fuzz "^$$f\$$" -fuzztime $(FUZZTIME) $$dir || exit 1; \
	  done; \
	done; \
	[ -n "$$found" ] || $(call fail,there are no fuzz tests)

# A mutant is a file with build tag mutant_NAME that breaks one promise, and a
# line "// killed by: PACKAGE TEST" in it: with the tag, that test must fail.
# A test that is skipped has seen nothing, hence TARN_TEST_REQUIRE.
mutants: ## build each hand-made fault and see the test that names it fail
	@export TARN_TEST_REQUIRE=1; found=; \
	for file in $$(grep -rlE '^//go:build mutant_[a-z0-9_]+$$' --include='*.go' . | sort); do \
	  found=1; tag=$$(sed -nE 's|^//go:build (mutant_[a-z0-9_]+)$$|\1|p' $$file); \
	  set -- $$(sed -nE 's|^// killed by: ([^ ]+) ([^ ]+)$$|\1 \2|p' $$file); \
	  [ $$# = 2 ] || { echo "$$file does not say: // killed by: PACKAGE TEST"; exit 1; }; \
	  $(GO) test -timeout 3m -run "^$$2\$$" $$1 >/dev/null || { echo "$$1 $$2 fails without the fault"; exit 1; }; \
	  $(GO) vet -tags $$tag $$1 || exit 1; \
	  if $(GO) test -timeout 3m -tags $$tag -run "^$$2\$$" $$1 >/dev/null 2>&1; then echo "$$tag survived $$1 $$2"; exit 1; fi; \
	  echo "$$tag killed by $$1 $$2"; \
	done; \
	[ -n "$$found" ] || $(call fail,there are no hand-made faults yet)

bench: setup ## measure with real mounts and clients; results go to stdout
	@integration/setup/setup.sh bench
	@grep -rqE '^func Benchmark' --include='*_test.go' integration || $(call fail,there are no benchmarks in integration/ yet)
	$(VENV) $(GO) test -run '^$$' -bench . -timeout 60m ./integration/...
	$(GO) test -run '^$$' -bench Ledger -benchtime 1x -timeout 60m ./engine/catalog/catalogtest

# A test of integration/ that draws numbers prints its seed; TARN_TEST_SEED repeats it.
stress: setup ## unit tests COUNT (10) times in random order, on one and two processors; 16 processes x 50 pushes to one branch on each store; then COUNT random SQL runs, kill -9 at random
	$(VENV) $(GO) test $(TESTFLAGS) -count $(COUNT) -shuffle on -cpu 1,2 -timeout 240m $(UNIT)
	TARN_TEST_LONG=1 $(GO) test $(TESTFLAGS) -run 'TestRivals|TestPullModel' -timeout 180m ./engine
	$(VENV) TARN_TEST_TRANSACTIONS=200 TARN_TEST_SEEDS=$(COUNT) TARN_TEST_SEED="$${TARN_TEST_SEED:-$$(date +%s)}" \
	  $(GO) test -v -count 1 -timeout 120m -run 'TestRandomSQL|TestWritersAtOnce|TestKillAtRandom' ./integration

soak: ## a mount under load for hours
	@ls integration/soak/*_test.go >/dev/null 2>&1 || $(call fail,there is no soak test yet)
	$(GO) test $(TESTFLAGS) -timeout 24h ./integration/soak/...

# The library is named in LDFLAGS of cgo, where the build cache does not look:
# its hash in -X makes a changed one a changed build. gc-sections leaves out
# what of it is not used, two thirds.
SLATE_LDFLAGS = $(LDFLAGS) -X github.com/tarnfs/tarn/engine/kv/slatekv.library=$$hash -extldflags=-Wl,--gc-sections
SLATE_TESTS   = ./engine/kv/...
# The parts above the store that are another thing with it.
SLATE_ABOVE   = -run "^(TestSlate|TestRockLakeCatalogOnSlate|TestTakeOver|TestGivenUp|TestStoreGenerations|TestStoreChosen|TestStoreCheckout|TestStoreUndo|TestStoreRepair|TestStoreHeldBefore|TestFollow)" ./engine/catalog/catalogtest ./engine ./integration

slatedb: setup ## build bin/tarn-slatedb, tarn with the SlateDB catalog store, and test it (needs Rust)
	hash=$$(engine/kv/slatekv/build.sh) && \
	$(GO) build -trimpath -tags slatedb -ldflags "$(SLATE_LDFLAGS)" -o bin/tarn-slatedb ./cmd/tarn && \
	$(GO) vet -tags slatedb $(SLATE_TESTS) ./engine/catalog/catalogtest ./engine ./integration && \
	$(VENV) $(GO) test $(TESTFLAGS) -tags slatedb -ldflags "$(SLATE_LDFLAGS)" -timeout 20m $(SLATE_TESTS) && \
	$(VENV) TARN_TEST_SLATE='$(CURDIR)/bin/tarn-slatedb' $(GO) test $(TESTFLAGS) -tags slatedb -ldflags "$(SLATE_LDFLAGS)" -timeout 20m $(SLATE_ABOVE) && \
	$(GO) test -tags slatedb -ldflags "$(SLATE_LDFLAGS)" -run '^$$' -bench DurableCommit -benchtime 1s -timeout 10m $(SLATE_TESTS)

cover: ## coverage of the unit tests by function, total last
	$(VENV) $(GO) test -coverprofile cover.out $(UNIT)
	$(GO) tool cover -func cover.out

clean: ## remove what was built here (Python environments stay in ~/.cache/tarn-dev)
	rm -rf bin cover.out .venv engine/kv/slatekv/lib
