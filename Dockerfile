# The image to compile in and the one to start from. Any will do that hold a Go compiler, and a static program's needs:
# CA certificates and a user without rights.
ARG BUILDER=golang:1.26
ARG BASE=gcr.io/distroless/static:nonroot

# The compiler runs on the building machine's platform, whichever platform it builds for.
FROM --platform=$BUILDPLATFORM ${BUILDER} AS builder
WORKDIR /src
# The modules are a layer of their own, which is made again only when they change.
COPY go.mod go.sum ./
ARG GOPROXY
RUN go mod download
COPY api api
COPY cmd cmd
COPY internal internal
ARG TARGETOS
ARG TARGETARCH
ARG VERSION
ARG COMMIT
# Nothing of the binary depends on when or where it is built, so that anybody can check what it was built from.
RUN CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH go build -trimpath -buildvcs=false \
	-ldflags="-s -w -buildid= -X example.com/podset-operator/internal/version.version=$VERSION -X example.com/podset-operator/internal/version.commit=$COMMIT" \
	-o /manager ./cmd

FROM ${BASE}
ARG VERSION
ARG COMMIT
LABEL org.opencontainers.image.title="podset-operator" \
	org.opencontainers.image.description="Keeps a wanted number of pods running" \
	org.opencontainers.image.source="https://example.com/podset-operator" \
	org.opencontainers.image.licenses="Apache-2.0" \
	org.opencontainers.image.version="$VERSION" \
	org.opencontainers.image.revision="$COMMIT"
COPY --from=builder /manager /manager
# A number, so that the kubelet can tell that it is not root.
USER 65532:65532
ENTRYPOINT ["/manager"]
