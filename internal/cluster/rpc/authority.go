package rpc

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"time"

	"github.com/orbweaver/orbweaver/internal/store/disk"
)

const (
	// authorityDir is the directory of the files that no agent may have.
	authorityDir     = "authority"
	authorityKeyFile = "ca.key"
	authorityName    = "Orbweaver cluster " // the certificate's name begins with it
	secretType       = "ORBWEAVER GOSSIP SECRET"
	certType         = "CERTIFICATE"
	keyType          = "PRIVATE KEY"
	// validity is how long all certificates are valid. There is no revocation list. If a key is
	// lost, the operator makes a new cluster authority.
	validity = 10 * 365 * 24 * time.Hour
	// backdated lets a machine whose clock is behind accept a new certificate.
	backdated = 48 * time.Hour
)

// ErrExists reports keys that exist already.
var ErrExists = errors.New("exists already")

// An Authority makes the keys of a cluster's agents and coordinators. Its files are
//
//	DIR/authority/  ca.pem ca.key gossip.key    never on a crawling machine
//	DIR/NAME/       ca.pem agent.pem agent.key gossip.key
//	DIR/NAME/       ca.pem coordinator.pem coordinator.key
type Authority struct {
	fs     disk.FS
	dir    string
	now    time.Time
	cert   *x509.Certificate
	pem    []byte
	key    *ecdsa.PrivateKey
	secret []byte // PEM
	// Made reports that OpenAuthority has created the authority.
	Made bool
}

// OpenAuthority opens the authority in dir, or creates one. Its certificates are valid from now.
func OpenAuthority(fsys disk.FS, dir string, now time.Time) (*Authority, error) {
	a := &Authority{fs: fsys, dir: dir, now: now}
	home := filepath.Join(dir, authorityDir)
	switch _, err := fsys.Stat(home); {
	case errors.Is(err, fs.ErrNotExist):
		return a, a.make()
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrKeys, err)
	}
	return a, a.load(home)
}

func (a *Authority) load(home string) error {
	var blocks [3][]byte
	for i, f := range []struct{ name, kind string }{
		{authorityFile, certType}, {authorityKeyFile, keyType}, {gossipFile, secretType},
	} {
		name := filepath.Join(home, f.name)
		text, err := disk.ReadFile(a.fs, name, maxKeyFile)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrKeys, err)
		}
		block, _ := pem.Decode(text)
		if block == nil || block.Type != f.kind {
			return fmt.Errorf("%w: %s: no %s in it", ErrKeys, name, f.kind)
		}
		blocks[i] = block.Bytes
		switch f.kind {
		case certType:
			a.pem = text
		case secretType:
			a.secret = text
		}
	}
	var err error
	if a.cert, err = x509.ParseCertificate(blocks[0]); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrKeys, filepath.Join(home, authorityFile), err)
	}
	key, err := x509.ParsePKCS8PrivateKey(blocks[1])
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrKeys, filepath.Join(home, authorityKeyFile), err)
	}
	ours, ok := key.(*ecdsa.PrivateKey)
	if !ok || !ours.PublicKey.Equal(a.cert.PublicKey) {
		return fmt.Errorf("%w: %s is not the key of %s", ErrKeys, filepath.Join(home, authorityKeyFile), authorityFile)
	}
	a.key = ours
	return nil
}

func (a *Authority) make() error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrKeys, err)
	}
	self := a.template(authorityName + rand.Text()[:8])
	self.IsCA, self.MaxPathLenZero = true, true
	self.KeyUsage = x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, self, self, &key.PublicKey, key)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrKeys, err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		return fmt.Errorf("%w: %w", ErrKeys, err)
	}
	secret := make([]byte, secretLen)
	rand.Read(secret)
	a.key, a.Made = key, true
	a.pem = pem.EncodeToMemory(&pem.Block{Type: certType, Bytes: der})
	a.secret = pem.EncodeToMemory(&pem.Block{Type: secretType, Bytes: secret})
	private, err := encodeKey(key)
	if err != nil {
		return err
	}
	return a.write(authorityDir, map[string][]byte{
		authorityFile: a.pem, authorityKeyFile: private, gossipFile: a.secret,
	})
}

// Dir returns the directory of the authority's private key.
func (a *Authority) Dir() string { return filepath.Join(a.dir, authorityDir) }

// Issue makes the keys of the agent called name, and returns their directory. If there are keys
// already, the error is an ErrExists, because an agent may be using them.
func (a *Authority) Issue(name string) (dir string, err error) { return a.issue(name, agentRole) }

// IssueCoordinator makes the keys of the coordinator called name, as Issue does those of an agent. They lack the
// secret of gossip.
func (a *Authority) IssueCoordinator(name string) (dir string, err error) {
	return a.issue(name, coordinatorRole)
}

func (a *Authority) issue(name string, is role) (dir string, err error) {
	if err := a.Check(name); err != nil {
		return "", err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrKeys, err)
	}
	leaf := a.template(name)
	leaf.Subject.OrganizationalUnit = is.units()
	leaf.DNSNames = []string{name}
	leaf.KeyUsage = x509.KeyUsageDigitalSignature
	leaf.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	if leaf.NotAfter.After(a.cert.NotAfter) {
		leaf.NotAfter = a.cert.NotAfter
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, a.cert, &key.PublicKey, a.key)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrKeys, err)
	}
	private, err := encodeKey(key)
	if err != nil {
		return "", err
	}
	certFile, keyFile := is.files()
	files := map[string][]byte{
		authorityFile: a.pem, keyFile: private, certFile: pem.EncodeToMemory(&pem.Block{Type: certType, Bytes: der}),
	}
	if is == agentRole {
		files[gossipFile] = a.secret
	}
	return filepath.Join(a.dir, name), a.write(name, files)
}

// Check returns the error that Issue would return, without writing anything.
func (a *Authority) Check(name string) error {
	if err := CheckName(name); err != nil {
		return fmt.Errorf("%w: %w", ErrKeys, err)
	}
	if name == authorityDir {
		return fmt.Errorf("%w: an agent or coordinator cannot be called %q: that is the directory of the authority",
			ErrKeys, name)
	}
	switch _, err := a.fs.Stat(filepath.Join(a.dir, name)); {
	case err == nil:
		return fmt.Errorf("%s: %w", filepath.Join(a.dir, name), ErrExists)
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: %w", ErrKeys, err)
	}
	return nil
}

// write creates a directory of secrets completely or not at all, so that a crash leaves no
// incomplete bundle under its name.
func (a *Authority) write(name string, files map[string][]byte) error {
	final := filepath.Join(a.dir, name)
	err := a.fs.MkdirAll(a.dir, 0o700)
	if err == nil {
		err = a.install(final, filepath.Join(a.dir, "."+name+".tmp"), files)
	}
	for _, dir := range []string{a.dir, filepath.Dir(a.dir)} {
		if err == nil {
			err = a.fs.SyncDir(dir)
		}
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, os.ErrExist):
		return fmt.Errorf("%s: %w", final, ErrExists)
	}
	return fmt.Errorf("%w: %w", ErrKeys, err)
}

// install writes the files in a work folder, and moves their directory to its name final.
func (a *Authority) install(final, temporary string, files map[string][]byte) (err error) {
	work, err := disk.OpenWork(a.fs, temporary)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, work.Close()) }()
	half := filepath.Join(work.Dir, "keys")
	if err := a.fs.Mkdir(half, 0o700); err != nil {
		return err
	}
	for file, text := range files {
		if err := disk.WriteSecret(a.fs, filepath.Join(half, file), text); err != nil {
			return err
		}
	}
	return a.fs.Rename(half, final)
}

func (a *Authority) template(name string) *x509.Certificate {
	serial, _ := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)) // crypto/rand never fails
	return &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             a.now.Add(-backdated),
		NotAfter:              a.now.Add(validity),
		BasicConstraintsValid: true,
	}
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrKeys, err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: keyType, Bytes: der}), nil
}
