# The commands that contributors need. CONTRIBUTING.md explains them.

STATICCHECK = go tool -modfile=$(CURDIR)/tools/go.mod staticcheck

# The experiments of `make lab`. Not among them is quality: it needs a file of links.
LAB = throughput frontier ring seen freshness scaling
LAB_OUT = .build/lab

# How long the soak starts new work, and with which of its jobs; empty means all.
SOAK_MINUTES = 60
SOAK_JOBS =

.PHONY: help build release check lint ci soak lab

help: ## List the targets.
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' Makefile | expand -t 8

build: ## Build the static binary ./orbweaver.
	CGO_ENABLED=0 go build -o orbweaver ./cmd/orbweaver

release: ## Make archives, Debian packages and container images of the commit in .build/release.
	go -C tools run ./release -out $(CURDIR)/.build/release

check: lint ## Check in some minutes: linter, vet, and the tests of the gate that need only Go.
	go test ./...

lint: ## Run staticcheck over all modules; staticcheck.conf has its rules.
	$(STATICCHECK) ./...
	cd lab && $(STATICCHECK) ./...
	cd tools && go tool staticcheck ./...

ci: ## Run what has to pass before a change lands. It installs what it needs on Debian 12.
	.ci/run

soak: ## Look for mistakes with random seeds for SOAK_MINUTES=60; it continues where it ended.
	go -C tools build -o $(CURDIR)/.build/soak/soak ./soak
	.build/soak/soak -root . -minutes $(SOAK_MINUTES) -jobs "$(SOAK_JOBS)"

lab: ## Run the experiments in their quick form; results are in .build/lab. Choose with LAB="ring seen".
	mkdir -p $(LAB_OUT)
	go -C lab build -o $(CURDIR)/.build/orblab ./cmd/orblab
	set -e; for name in $(LAB); do .build/orblab $$name --quick --out $(LAB_OUT); done
