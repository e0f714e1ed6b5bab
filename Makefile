# The commands that contributors need. CONTRIBUTING.md explains them.

STATICCHECK = go tool -modfile=$(CURDIR)/tools/go.mod staticcheck

# The experiments of `make lab`. Not among them is quality: it needs a file of links.
LAB = throughput frontier ring seen freshness scaling
LAB_OUT = .build/lab

.PHONY: help build release check lint test ci lab

help: ## List the targets.
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' Makefile | expand -t 8

build: ## Build the static binary ./orbweaver.
	CGO_ENABLED=0 go build -o orbweaver ./cmd/orbweaver

release: ## Make archives, Debian packages and container images of the commit in .build/release.
	go -C tools run ./release -out $(CURDIR)/.build/release

check: lint ## Check in a few minutes: linter, vet, layers, formatting, links, and tests without the long ones.
	go test .
	go test -short ./cmd/... ./internal/...

lint: ## Run staticcheck over all modules; staticcheck.conf has its rules.
	$(STATICCHECK) ./...
	cd lab && $(STATICCHECK) ./...
	cd tools && go tool staticcheck ./...

test: ## Run all tests of all modules. Tests that need more than Go skip.
	go test -timeout 20m ./...
	go -C lab test -timeout 20m ./...
	go -C tools test -timeout 20m ./...

ci: ## Run what has to pass before a change lands. It installs what it needs on Debian 12.
	.ci/run

lab: ## Run the experiments in their quick form; results are in .build/lab. Choose with LAB="ring seen".
	mkdir -p $(LAB_OUT)
	go -C lab build -o $(CURDIR)/.build/orblab ./cmd/orblab
	set -e; for name in $(LAB); do .build/orblab $$name --quick --out $(LAB_OUT); done
