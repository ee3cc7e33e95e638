ARG BUILDER=golang:1.26
ARG BASE=gcr.io/distroless/static:nonroot

# The compiler runs on the building machine's platform, whichever platform it builds for.
FROM --platform=$BUILDPLATFORM ${BUILDER} AS builder
WORKDIR /src
# The modules are a layer of their own, which is made again only when they change.
COPY go.mod go.sum ./
RUN go mod download
COPY api api
COPY cmd cmd
COPY internal internal
ARG TARGETOS
ARG TARGETARCH
RUN CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH go build -trimpath -ldflags="-s -w" -o /manager ./cmd

FROM ${BASE}
COPY --from=builder /manager /manager
# A number, so that the kubelet can tell that it is not root.
USER 65532:65532
ENTRYPOINT ["/manager"]
