# The image that is built and deployed, and what it says it was built from.
VERSION ?= v0.1.0
COMMIT ?= $(or $(shell git describe --always --dirty --abbrev=40 --exclude='*' 2> /dev/null),unknown)
IMG ?= podset-operator:$(VERSION)

# What builds images (docker, podman or buildah), and for which platforms docker-buildx builds them.
CONTAINER_TOOL ?= docker
PLATFORMS ?= linux/amd64,linux/arm64,linux/s390x,linux/ppc64le

# Other images than the Dockerfile's to compile in and to start from, and more arguments for building an image.
BUILDER ?=
BASE ?=
BUILD_ARGS ?=

KUBECTL ?= kubectl

# More arguments: of the manager for run, of `go test` for test and test-e2e, which follow the packages.
ARGS ?=
TESTFLAGS ?=

# The versions of Kubernetes and of all tools. One given on the command line or in the environment comes first.
$(foreach pin,$(shell sed -n '/^[A-Z]/p' hack/versions.env),$(eval $(subst =, ?= ,$(pin))))

# Tools are kept outside the checkout, by version, so that every clone shares them.
TOOLS ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/podset-operator/tools
CONTROLLER_GEN := $(TOOLS)/controller-gen-$(CONTROLLER_GEN_VERSION)
KUSTOMIZE := $(TOOLS)/kustomize-$(KUSTOMIZE_VERSION)
GOLANGCI_LINT := $(TOOLS)/golangci-lint-$(GOLANGCI_LINT_VERSION)
KIND := $(TOOLS)/kind-$(KIND_VERSION)

CRD := config/crd/bases/app.example.com_podsets.yaml

.PHONY: help
help: ## Show this help.
	@awk 'BEGIN { FS = ":.*## "; print "Usage: make TARGET [NAME=VALUE ...]" } \
		/^##@ / { printf "\n%s\n", substr($$0, 5) } \
		/^[a-z0-9-]+:.*## / { printf "  %-16s %s\n", $$1, $$2 }' Makefile

##@ See it work

.PHONY: demo
demo: ## Run the operator on a local cluster and walk through a session; KEEP=1 leaves the cluster up.
	@go run ./hack/demo

.PHONY: cluster-up
cluster-up: ## Start a local cluster in the background and say how to use it; NAME=x to have several.
	go run ./hack/localcluster up $(if $(NAME),--name $(NAME))

.PHONY: cluster-down
cluster-down: ## Stop the local cluster; NAME=x for one of several.
	go run ./hack/localcluster down $(if $(NAME),--name $(NAME))

##@ Develop

.PHONY: generate
generate: $(CONTROLLER_GEN) ## Generate the DeepCopy methods of the API types.
	$(CONTROLLER_GEN) object paths=./api/...

.PHONY: manifests
manifests: $(CONTROLLER_GEN) ## Generate the CustomResourceDefinition and the manager's roles.
	$(CONTROLLER_GEN) crd:generateEmbeddedObjectMeta=true paths=./api/... output:crd:dir=$(dir $(CRD))
	$(CONTROLLER_GEN) rbac:roleName=manager-role paths=./internal/... output:rbac:dir=config/rbac
	go run ./hack/crdtrim $(CRD)

.PHONY: fmt
fmt: ## Format the Go code.
	go fmt ./...

.PHONY: vet
vet: ## Run go vet.
	go vet ./...

.PHONY: lint
lint: $(GOLANGCI_LINT) ## Run golangci-lint.
	$(GOLANGCI_LINT) run

.PHONY: lint-fix
lint-fix: $(GOLANGCI_LINT) ## Run golangci-lint and fix what it can.
	$(GOLANGCI_LINT) run --fix

.PHONY: verify
verify: ## Regenerate, format and tidy everything; fail and show the difference if that changes a file.
	hack/verify.sh

.PHONY: run
run: ## Run the manager on this machine against the cluster of the current kubeconfig; ARGS=... for its flags.
	go run ./cmd --log-format=text $(ARGS)

##@ Test

# One package at a time: several of them start a control plane. What is compiled is compiled in parallel, by go vet.
.PHONY: test
test: vet ## Run all tests but the end-to-end ones; TESTFLAGS=... for go test.
	assets=$$(go run ./hack/localcluster assets) && packages=$$(go list ./... | grep -v /test/e2e) && \
	KUBEBUILDER_ASSETS=$$assets go test -p 1 -timeout 30m $$packages $(TESTFLAGS)

.PHONY: explore
explore: ## Explore the reconciler on a simulated API server; STATES=, SEEDS= and EXPLORE_SECONDS= for more than `make test` does.
	go test -count=1 -v -timeout 60m -run 'EveryState|RandomWalks|FieldBugs|Gaps' ./test/sim

.PHONY: faults
faults: ## Run the manager under faults on a real API server; FAULTS=, KILLS= and FAULT_SEED= for more than `make test` does.
	assets=$$(go run ./hack/localcluster assets) && \
	KUBEBUILDER_ASSETS=$$assets go test -count=1 -v -timeout 120m ./test/faults $(TESTFLAGS)

.PHONY: soak
soak: ## Have a manager live through many changes, and see that its heap and goroutines do not grow; SOAK=10000 changes.
	assets=$$(go run ./hack/localcluster assets) && \
	KUBEBUILDER_ASSETS=$$assets go test -count=1 -v -timeout 120m ./test/soak $(TESTFLAGS)

# The race detector makes everything some times slower: fewer states and walks than without.
.PHONY: test-race
test-race: ## Run the unit tests, the exploration and the tests on a real API server under the race detector; takes gcc.
	assets=$$(go run ./hack/localcluster assets) && \
	KUBEBUILDER_ASSETS=$$assets STATES=$${STATES:-100000} SEEDS=$${SEEDS:-1000} \
	go test -race -p 1 -count=1 -timeout 60m ./internal/... ./test/fuzz ./test/sim ./test/integration $(TESTFLAGS)

.PHONY: fuzz
fuzz: ## Try the decision, the status and the CustomResourceDefinition with arbitrary input; FUZZTIME=1m for each.
	for name in FuzzDecide FuzzStatus FuzzSpec; do \
		go test -run '^$$' -fuzz "^$$name\$$" -fuzztime $${FUZZTIME:-1m} ./test/fuzz || exit 1; done

.PHONY: bench
bench: ## Measure the operator beside ReplicaSets and others, into docs/benchmarks; BENCH=, ARMS=, BLOCKS=, SIZE=, OUT=, PROFILES=.
	assets=$$(go run ./hack/localcluster assets) && KUBEBUILDER_ASSETS=$$assets go run ./test/bench

.PHONY: bench-go
bench-go: ## Measure the decision and the status alone, for 10, 1,000 and 10,000 pods.
	go test -run '^$$' -bench . -benchmem ./internal/podset $(TESTFLAGS)

.PHONY: mutants
mutants: ## Make wrong versions of the rules, one at a time, and see that the exploration stops each; TEXT=part of a name.
	go run ./hack/mutants $(TEXT)

.PHONY: test-e2e
test-e2e: $(if $(KUBECONFIG),,$(KIND)) ## Run the end-to-end tests with image IMG on the cluster of KUBECONFIG; if unset, on a kind cluster.
	IMG=$(IMG) KIND=$(KIND) KUBECTL=$(KUBECTL) CONTAINER_TOOL=$(CONTAINER_TOOL) \
	go test -v -count=1 -timeout 30m ./test/e2e/... $(TESTFLAGS)

.PHONY: test-image
test-image: ## Check the image IMG that docker-build has built; build it again and compare the manager in it.
	$(CONTAINER_TOOL) build --no-cache $(IMAGE_ARGS) -t $(IMG)-again .
	TEST_IMAGE=$(IMG) TEST_IMAGE_AGAIN=$(IMG)-again CONTAINER_TOOL=$(CONTAINER_TOOL) go test -v -count=1 ./test/image
	$(CONTAINER_TOOL) rmi $(IMG)-again

.PHONY: assets
assets: ## Get the binaries of a control plane, unless they are there, and print their folder.
	@go run ./hack/localcluster assets

##@ Build

.PHONY: build
build: ## Build bin/manager.
	CGO_ENABLED=0 go build -trimpath -ldflags "-X $(STAMP).version=$(VERSION) -X $(STAMP).commit=$(COMMIT)" -o bin/manager ./cmd

STAMP := example.com/podset-operator/internal/version
IMAGE_ARGS = --build-arg VERSION=$(VERSION) --build-arg COMMIT=$(COMMIT) \
	$(if $(BUILDER),--build-arg BUILDER=$(BUILDER)) $(if $(BASE),--build-arg BASE=$(BASE)) $(BUILD_ARGS)

.PHONY: docker-build
docker-build: ## Build the image IMG with CONTAINER_TOOL, from the images BUILDER and BASE if given.
	$(CONTAINER_TOOL) build $(IMAGE_ARGS) -t $(IMG) .

.PHONY: docker-push
docker-push: ## Push the image IMG.
	$(CONTAINER_TOOL) push $(IMG)

.PHONY: docker-buildx
docker-buildx: ## Build the image IMG for PLATFORMS and push it.
	-$(CONTAINER_TOOL) buildx create --name podset-operator-builder
	$(CONTAINER_TOOL) buildx build --builder podset-operator-builder --platform $(PLATFORMS) $(IMAGE_ARGS) --push -t $(IMG) .
	-$(CONTAINER_TOOL) buildx rm podset-operator-builder

.PHONY: build-installer
build-installer: overlay ## Write dist/install.yaml, all that an installation with image IMG takes.
	mkdir -p dist
	$(KUSTOMIZE) build bin/overlay > dist/install.yaml

##@ Deploy

.PHONY: install
install: manifests $(KUSTOMIZE) ## Install the CustomResourceDefinition into the cluster of the current kubeconfig.
	$(KUSTOMIZE) build config/crd | $(KUBECTL) apply -f -

.PHONY: uninstall
uninstall: $(KUSTOMIZE) ## Remove the CustomResourceDefinition, and with it all PodSets and their pods.
	$(KUSTOMIZE) build config/crd | $(KUBECTL) delete --ignore-not-found -f -

.PHONY: deploy
deploy: overlay ## Deploy the operator with image IMG to the cluster of the current kubeconfig.
	$(KUSTOMIZE) build bin/overlay | $(KUBECTL) apply -f -

.PHONY: undeploy
undeploy: $(KUSTOMIZE) ## Remove the operator, the CustomResourceDefinition, and with it all PodSets and their pods.
	$(KUSTOMIZE) build config/default | $(KUBECTL) delete --ignore-not-found -f -

# config/default with the image IMG, made where git does not look.
.PHONY: overlay
overlay: manifests $(KUSTOMIZE)
	mkdir -p bin/overlay
	rm -f bin/overlay/kustomization.yaml
	cd bin/overlay && $(KUSTOMIZE) create --resources ../../config/default
	cd bin/overlay && $(KUSTOMIZE) edit set image podset-operator=$(IMG)

##@ Tools

.PHONY: tools
tools: $(CONTROLLER_GEN) $(KUSTOMIZE) $(GOLANGCI_LINT) $(KIND) ## Install all tools now; otherwise each target installs what it needs.

$(CONTROLLER_GEN):
	$(call go-install,sigs.k8s.io/controller-tools/cmd/controller-gen@$(CONTROLLER_GEN_VERSION))

$(KUSTOMIZE):
	$(call go-install,sigs.k8s.io/kustomize/kustomize/v5@$(KUSTOMIZE_VERSION))

$(GOLANGCI_LINT):
	$(call go-install,github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT_VERSION))

$(KIND):
	$(call go-install,sigs.k8s.io/kind@$(KIND_VERSION))

# go-install installs the command of a package under the target's name. It appears there only when it is complete, also
# if two of these run at once.
define go-install
	@echo "installing $(1), which may take minutes the first time" >&2
	@mkdir -p $(TOOLS) && dir=$$(mktemp -d $(TOOLS)/install-XXXXXX) && \
	trap 'rm -rf "$$dir"' EXIT && trap 'exit 1' INT TERM && \
	GOBIN=$$dir GOFLAGS= go install $(1) && mv $$dir/* $@
endef
