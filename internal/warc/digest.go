package warc

import (
	"bytes"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"hash"
	"strings"
)

// A digest is a WARC-Block-Digest or WARC-Payload-Digest to be checked: its hash function and the expected value.
type digest struct {
	name string // of the algorithm
	hash hash.Hash
	want []byte
}

// parseDigest parses "algorithm:value". The value may be base32, base16 or base64, because writers differ. ok is false
// if the algorithm is unknown; this is not an error, because the standard prescribes no algorithm.
func parseDigest(s string) (d *digest, ok bool) {
	algorithm, value, found := strings.Cut(strings.TrimSpace(s), ":")
	if !found {
		return nil, false
	}
	var h hash.Hash
	name := strings.ToLower(strings.ReplaceAll(algorithm, "-", ""))
	switch name {
	case "sha1":
		h = sha1.New()
	case "sha256":
		h = sha256.New()
	case "sha512":
		h = sha512.New()
	case "md5":
		h = md5.New()
	default:
		return nil, false
	}
	return &digest{name, h, decodeDigest(value, h.Size())}, true
}

// decodeDigest returns the n bytes that s encodes, or nil if s is not a digest of n bytes.
func decodeDigest(s string, n int) []byte {
	if len(s) > 4*n {
		return nil
	}
	if b, err := hex.DecodeString(s); err == nil && len(b) == n {
		return b
	}
	bare := strings.TrimRight(s, "=")
	unpadded := base32.StdEncoding.WithPadding(base32.NoPadding)
	if b, err := unpadded.DecodeString(strings.ToUpper(bare)); err == nil && len(b) == n {
		return b
	}
	for _, e := range [...]*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		if b, err := e.DecodeString(bare); err == nil && len(b) == n {
			return b
		}
	}
	return nil
}

// matches reports whether the hashed bytes have the expected digest.
func (d *digest) matches() bool { return bytes.Equal(d.hash.Sum(nil), d.want) }
