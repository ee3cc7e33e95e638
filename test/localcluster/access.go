package localcluster

import (
	"crypto/rand"
	"encoding/csv"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// user is somebody the apiserver knows by a token.
type user struct {
	name  string
	group string
}

var (
	admin             = user{name: "admin", group: "system:masters"}
	controllerManager = user{name: "system:kube-controller-manager"}
	scheduler         = user{name: "system:kube-scheduler"}
	kwok              = user{name: "kwok", group: "system:masters"}
)

// access is what proves the identities of a cluster: the apiserver's to its
// clients, and theirs to it. Its files live in the cluster's folder.
type access struct {
	dir               string
	server            string
	servingCert       string
	servingKey        string
	serviceAccountKey string
	tokens            string

	authority []byte
	token     map[user]string
}

func newAccess(dir string) (*access, error) {
	a := &access{
		dir:               dir,
		servingCert:       filepath.Join(dir, "apiserver.crt"),
		servingKey:        filepath.Join(dir, "apiserver.key"),
		serviceAccountKey: filepath.Join(dir, "service-account.key"),
		tokens:            filepath.Join(dir, "tokens.csv"),
		token:             map[user]string{},
	}
	var servingKey []byte
	var err error
	// The PEM of the certificate also holds the authority that signed it.
	a.authority, servingKey, err = cert.GenerateSelfSignedCertKey("localhost", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	if err != nil {
		return nil, fmt.Errorf("make the certificate of kube-apiserver: %w", err)
	}
	serviceAccountKey, err := keyutil.MakeEllipticPrivateKeyPEM()
	if err != nil {
		return nil, fmt.Errorf("make the key of service accounts: %w", err)
	}
	for path, content := range map[string][]byte{
		a.servingCert:       a.authority,
		a.servingKey:        servingKey,
		a.serviceAccountKey: serviceAccountKey,
	} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			return nil, fmt.Errorf("write a certificate or key: %w", err)
		}
	}
	if err := a.writeTokens(admin, controllerManager, scheduler, kwok); err != nil {
		return nil, fmt.Errorf("write the tokens: %w", err)
	}
	return a, nil
}

func (a *access) writeTokens(users ...user) error {
	file, err := os.OpenFile(a.tokens, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	lines := csv.NewWriter(file)
	for _, u := range users {
		a.token[u] = rand.Text()
		if err := lines.Write([]string{a.token[u], u.name, u.name, u.group}); err != nil {
			return err
		}
	}
	lines.Flush()
	return lines.Error()
}

// config returns what lets a client act as u, without a rate limit.
func (a *access) config(u user) *rest.Config {
	return &rest.Config{
		Host:            a.server,
		BearerToken:     a.token[u],
		TLSClientConfig: rest.TLSClientConfig{CAData: a.authority},
		QPS:             -1,
	}
}

// kubeconfig writes a file for u and returns its path.
func (a *access) kubeconfig(u user) (string, error) {
	path := filepath.Join(a.dir, strings.TrimPrefix(u.name, "system:")+".kubeconfig")
	return path, WriteKubeconfig(path, a.config(u))
}

// WriteKubeconfig writes a file with the access to a cluster that config has by a
// token.
func WriteKubeconfig(path string, config *rest.Config) error {
	const name = "localcluster"
	kubeconfig := clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{
			name: {Server: config.Host, CertificateAuthorityData: config.CAData},
		},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{name: {Token: config.BearerToken}},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: name}},
		CurrentContext: name,
	}
	if err := clientcmd.WriteToFile(kubeconfig, path); err != nil {
		return fmt.Errorf("write a kubeconfig: %w", err)
	}
	return nil
}
