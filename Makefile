SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --warn-undefined-variables --no-builtin-rules

.PHONY: help build test test-race check fmt vet lint openapi openapi-check migrate-new run up down e2e bench bench-go bench-isolation bench-compare cover clean

help: ## Show this
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 20

build: ## Build bin/eventsvc
	CGO_ENABLED=0 go build -trimpath -o bin/eventsvc ./cmd/eventsvc

run: ## Run everything on this machine, with nothing to set up
	go run ./cmd/eventsvc dev

test: ## Run every test
	go test -count=1 ./...

test-race: ## Run every test under the race detector
	go test -race -count=1 ./...

e2e: ## Run the stories against the real binary
	go test -count=1 -v ./e2e

check: vet lint openapi-check ## Everything a commit must pass but the tests
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); [ -z "$$unformatted" ] || { echo "not gofmt-clean: $$unformatted"; exit 1; }
	go test ./internal/floors

fmt: ## Format the code
	gofmt -w $$(git ls-files '*.go')

vet:
	go vet ./...

lint: ## Run staticcheck
	go tool -modfile=tools/go.mod staticcheck ./...

openapi: ## Write openapi.yaml anew
	go run ./cmd/eventsvc openapi > openapi.yaml

openapi-check:
	go run ./cmd/eventsvc openapi | diff -u openapi.yaml - || { echo "openapi.yaml is stale: run make openapi"; exit 1; }

bench: build ## Measure the service over a database, with and without disturbance; see BENCHMARKS.md
	cd bench/river && go build -trimpath -o ../../bin/bench-river .
	bin/eventsvc bench --beside bin/bench-river

bench-go: ## Benchmarks of the hot path, with allocations
	go test -run '^$$' -bench . -benchmem ./internal/... ./api

BASE ?=
BENCHED := ./api ./internal/webhook ./internal/access ./internal/registry ./internal/around ./internal/pg
ROUNDS ?= 6
bench-compare: ## The Go benchmarks of the hot path beside those of a commit: make bench-compare BASE=main
	@[ -n "$(BASE)" ] || { echo "BASE is not set; give the commit to compare with: make bench-compare BASE=main"; exit 2; }
	@dir=$$(mktemp -d); trap 'git worktree remove --force "$$dir/base" 2>/dev/null || true; rm -rf "$$dir"' EXIT; \
	git worktree add --quiet --detach "$$dir/base" "$(BASE)"; \
	for round in $$(seq $(ROUNDS)); do echo "round $$round of $(ROUNDS)" >&2; \
	  (cd "$$dir/base" && go test -run '^$$' -bench . -benchmem -benchtime 0.3s $(BENCHED)) >> "$$dir/base.txt"; \
	  go test -run '^$$' -bench . -benchmem -benchtime 0.3s $(BENCHED) >> "$$dir/here.txt"; done; \
	go tool -modfile=tools/go.mod benchstat "$$dir/base.txt" "$$dir/here.txt"

bench-isolation: ## How long a healthy receiver waits beside unhealthy ones; see BENCHMARKS.md
	go test -run '^$$' -bench Isolation -benchtime 1x -timeout 20m ./e2e

cover: ## Coverage by package
	go test -coverprofile=cover.out ./... && go tool cover -func=cover.out | tail -1

name ?= change
migrate-new: ## Make the next migration: make migrate-new name=add_something
	@last=$$(ls migrations/*.up.sql | sed -E 's,.*/0*([0-9]+)_.*,\1,' | sort -n | tail -1); next=$$(printf '%04d' $$((last + 1))); \
	for way in up down; do printf "SET LOCAL lock_timeout = '3s';\n" > migrations/$${next}_$(name).$$way.sql; done; ls migrations/$${next}_*

up: ## Run the service and its database in containers
	docker compose up --build

down: ## Stop them; their data stays
	docker compose down

clean: ## Remove what was built
	rm -rf bin cover.out
