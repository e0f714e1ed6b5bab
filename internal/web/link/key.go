package link

import (
	"github.com/cespare/xxhash/v2"

	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// Key is a URL's fingerprint. It has a host part and a path part, so that the keys of one host form
// one range.
//
// Host is the 64-bit xxHash of the host, and Path is the 64-bit xxHash of the whole canonical URL, without its session
// ids (session.go). Journals and stores hold keys, so both values are the same on every machine and in every version.
//
// Collisions lose pages. Two URLs of one host share a key only if their Path parts collide: n URLs
// of a host expect n(n-1)/2^65 lost pages, which is 3e-8 for a million URLs and 0.03 for a billion.
// Two URLs of different hosts share a key only if both parts collide: 2^-128 a pair. Among m hosts,
// m^2/2^65 pairs share a Host part, which is 3e-4 for a hundred million hosts; such hosts share
// only a range.
//
// xxHash is not cryptographic. An attacker can make URLs of their own host collide, which hides
// only their own pages. To hide a page of another host, the attacker also needs a host name that
// collides.
type Key struct{ Host, Path uint64 }

// KeyOf returns u's fingerprint.
func KeyOf(u weburl.URL) Key { return Key{HostKey(u.Host()), pathKey(u.String(), len(u.Origin()))} }

// HostKey returns the Host part of the keys of all URLs of host.
func HostKey(host string) uint64 { return xxhash.Sum64String(host) }
