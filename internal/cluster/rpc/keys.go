package rpc

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/input"
	"github.com/orbweaver/orbweaver/internal/store/disk"
)

// The files of a bundle: everything that one agent, or one coordinator, needs to be admitted.
const (
	authorityFile       = "ca.pem"          // certificate of the cluster's authority, which signs all others
	certFile            = "agent.pem"       // this agent's certificate, with its name
	keyFile             = "agent.key"       // the private key of that certificate
	gossipFile          = "gossip.key"      // the secret that encrypts all agents' packets; of agents only
	coordinatorCertFile = "coordinator.pem" // in place of agent.pem
	coordinatorKeyFile  = "coordinator.key" // in place of agent.key
	secretExt           = ".key"            // of files that only their owner may read
	secretLen           = 32                // AES-256
	maxKeyFile          = 64 << 10          // no file of a bundle is larger
	protoCalls          = "h2"              // ALPN of calls
	protoGossip         = "orb-gossip1"     // ALPN of gossip streams
	protoRaft           = "orb-raft1"       // ALPN of streams between coordinators
)

// files returns the names of a bundle's certificate and private key.
func (r role) files() (cert, key string) {
	if r == coordinatorRole {
		return coordinatorCertFile, coordinatorKeyFile
	}
	return certFile, keyFile
}

// ErrKeys reports keys that are missing, damaged, or issued to another agent.
var ErrKeys = errors.New("cluster keys")

// Keys prove the identity of an agent or a coordinator, and verify others. All connections share
// them. A nil *Keys is for a process without keys: it communicates without encryption, and on this
// machine only.
type Keys struct {
	name   string
	role   role
	cert   tls.Certificate
	roots  *x509.CertPool
	gossip []byte
	clock  clock.Clock // the clock for the validity of certificates
}

// nameForm matches a DNS name in lower case, because an agent's name is in its certificate and in
// the names of its archives.
var nameForm = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?$`)

// CheckName returns an error unless name is valid for an agent or a coordinator: 1 to 63 bytes of a to z, 0 to 9,
// "-" and ".", the last two not at its ends.
func CheckName(name string) error {
	if !nameForm.MatchString(name) {
		return fmt.Errorf("name %q: use 1 to 63 of a-z, 0-9, \"-\" and \".\", with a letter or digit at both ends",
			name)
	}
	return nil
}

// LoadKeys reads the keys in dir. The error is an ErrKeys, also if all users of the machine can
// read a secret file. by is the clock by which the certificates of this agent and of others
// must be valid; nil means clock.System.
func LoadKeys(fs disk.FS, dir string, by clock.Clock) (*Keys, error) {
	read := func(name string) ([]byte, error) {
		b, err := disk.ReadFile(fs, filepath.Join(dir, name), maxKeyFile)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrKeys, err)
		}
		if filepath.Ext(name) != secretExt {
			return b, nil
		}
		info, err := fs.Stat(filepath.Join(dir, name))
		if err == nil && info.Mode().Perm()&0o007 != 0 {
			err = fmt.Errorf("%s can be read by everybody on this machine: chmod 600 it, and bring new keys to all "+
				"agents if somebody may have", filepath.Join(dir, name))
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrKeys, err)
		}
		return b, nil
	}
	caPEM, err := read(authorityFile)
	if err != nil {
		return nil, err
	}
	is := agentRole
	if _, err := fs.Stat(filepath.Join(dir, coordinatorCertFile)); err == nil {
		is = coordinatorRole
	}
	certFile, keyFile := is.files()
	certPEM, err := read(certFile)
	if err != nil {
		return nil, err
	}
	keyPEM, err := read(keyFile)
	if err != nil {
		return nil, err
	}
	var secret []byte
	if is == agentRole {
		if secret, err = read(gossipFile); err != nil {
			return nil, err
		}
	}
	return newKeys(dir, is, caPEM, certPEM, keyPEM, secret, by)
}

func newKeys(dir string, is role, caPEM, certPEM, keyPEM, secret []byte, by clock.Clock) (*Keys, error) {
	certFile, _ := is.files()
	fail := func(file string, err error) error {
		return fmt.Errorf("%w: %s: %w", ErrKeys, filepath.Join(dir, file), err)
	}
	k := &Keys{role: is, roots: x509.NewCertPool(), clock: clock.Or(by)}
	if !k.roots.AppendCertsFromPEM(caPEM) {
		return nil, fail(authorityFile, errors.New("no certificate in it"))
	}
	var err error
	if k.cert, err = tls.X509KeyPair(certPEM, keyPEM); err != nil {
		return nil, fail(certFile, err)
	}
	leaf := k.cert.Leaf
	if k.name, err = nameOf(leaf); err != nil {
		return nil, fail(certFile, err)
	}
	// Without this check, each of the other agents would refuse the certificate in turn.
	if err := k.judge([]*x509.Certificate{leaf}, x509.ExtKeyUsageClientAuth, k.name, is); err != nil {
		return nil, fail(certFile, err)
	}
	if is == coordinatorRole {
		return k, nil
	}
	block, _ := pem.Decode(secret)
	if block == nil || block.Type != secretType || len(block.Bytes) != secretLen {
		return nil, fail(gossipFile, fmt.Errorf("not a secret of %d octets", secretLen))
	}
	k.gossip = block.Bytes
	return k, nil
}

// Name returns the name of the agent or coordinator that the keys are for.
func (k *Keys) Name() string { return k.name }

// Coordinator reports whether the keys are a coordinator's. Without keys there are no roles.
func (k *Keys) Coordinator() bool { return k != nil && k.role == coordinatorRole }

// Gossip returns the secret that encrypts gossip (AES-256-GCM), or nil without keys. Only the
// agents of the cluster have it.
func (k *Keys) Gossip() []byte {
	if k == nil {
		return nil
	}
	return k.gossip
}

// nameOf returns the only agent or coordinator that a certificate names.
func nameOf(c *x509.Certificate) (string, error) {
	if len(c.DNSNames) != 1 {
		return "", fmt.Errorf("the certificate names %d agents, not one", len(c.DNSNames))
	}
	return c.DNSNames[0], CheckName(c.DNSNames[0])
}

// judge returns an error unless a certificate chain proves that its owner is of this cluster, is
// called name, and has the role want. An empty name means any.
func (k *Keys) judge(chain []*x509.Certificate, use x509.ExtKeyUsage, name string, want role) error {
	if len(chain) == 0 {
		return errors.New("no certificate")
	}
	opts := x509.VerifyOptions{Roots: k.roots, CurrentTime: k.clock.Now(), KeyUsages: []x509.ExtKeyUsage{use}}
	if _, err := chain[0].Verify(opts); err != nil {
		return err
	}
	is, err := nameOf(chain[0])
	if err != nil {
		return err
	}
	if err := checkRole(chain[0], want); err != nil {
		return err
	}
	if name != "" && is != name {
		return fmt.Errorf("it is agent %q, not %q", is, name)
	}
	return nil
}

// Certificate returns the certificate of this agent, with its private key. Its only DNS name is the agent's.
func (k *Keys) Certificate() *tls.Certificate { return &k.cert }

// server returns the configuration for accepted connections: they need a certificate of the
// cluster. It offers the streams of both roles, so that a caller that expects the other role learns
// from the certificate which one answers. Sessions are not resumed, so that every
// connection checks the certificate. Connections are few and live long.
func (k *Keys) server() *tls.Config {
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		Certificates:           []tls.Certificate{k.cert},
		ClientAuth:             tls.RequireAnyClientCert,
		NextProtos:             []string{protoCalls, protoGossip, protoRaft},
		SessionTicketsDisabled: true,
		VerifyConnection: func(s tls.ConnectionState) error {
			return k.judge(s.PeerCertificates, x509.ExtKeyUsageClientAuth, "", callerRole(s.NegotiatedProtocol))
		},
	}
}

// client returns the configuration for a connection to the agent or coordinator called name, or to
// any with the role want if name is empty.
func (k *Keys) client(proto, name string, want role) *tls.Config {
	return &tls.Config{
		MinVersion:   tls.VersionTLS13,
		Certificates: []tls.Certificate{k.cert},
		NextProtos:   []string{proto},
		// The server name is sent unencrypted, so it must not name an agent.
		ServerName: "agent",
		// The library would compare a host name. An agent is identified by the name in its
		// certificate, not by its address. VerifyConnection runs for every handshake and does the
		// whole check.
		InsecureSkipVerify: true,
		VerifyConnection: func(s tls.ConnectionState) error {
			err := k.judge(s.PeerCertificates, x509.ExtKeyUsageServerAuth, name, want)
			if err != nil && len(s.PeerCertificates) > 0 {
				if foreign := notOfCluster(s.PeerCertificates[0], want); foreign != nil {
					return foreign
				}
			}
			if errors.Is(err, errRole) {
				return &ForeignError{want.other().String(), want}
			}
			if _, other := errors.AsType[x509.UnknownAuthorityError](err); other {
				return fmt.Errorf("%w: %w", ErrStranger, err)
			}
			return err
		},
	}
}

// KeysError returns the *input.ConfigError for an error of LoadKeys. owner is who has the keys in the directory, such
// as "this agent".
func KeysError(dir, owner string, err error) error {
	remedy := "give the directory that \"orbweaver cluster keys\" made for " + owner
	if errors.Is(err, fs.ErrPermission) {
		remedy = "run the agent as the owner of the keys"
	}
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return input.Errorf("{keys} %s: %s: %v; %s", dir, p.Path, p.Err, remedy)
	}
	return input.Errorf("{keys} %s: %s; %s", dir, strings.TrimPrefix(err.Error(), ErrKeys.Error()+": "), remedy)
}
