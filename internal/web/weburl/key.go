package weburl

import "github.com/cespare/xxhash/v2"

// Key is a URL's fingerprint: host part and path part, so that the keys of a
// host are one range.
//
// Host is the 64-bit xxHash of the host, Path that of the whole canonical URL;
// both are the same on every machine and in every version (journals and stores
// hold them). Two URLs of one host share a key only if their Path parts
// collide: n URLs of a host expect n(n-1)/2^65 lost pages, that is 3e-8 for a
// million and 0.03 for a billion. URLs of different hosts need both parts to
// collide: 2^-128 a pair. Two of m hosts share a Host part in m^2/2^65 cases,
// 3e-4 for a hundred million; such hosts share a range and nothing else.
// xxHash is not cryptographic: somebody who works for it can make URLs of his
// own host collide, and so hide his own pages, but a collision with another
// site's page needs a host name that collides as well.
type Key struct{ Host, Path uint64 }

// Key returns u's fingerprint.
func (u URL) Key() Key { return Key{HostKey(u.Host()), xxhash.Sum64String(u.s)} }

// HostKey is the host part of the keys of host's URLs.
func HostKey(host string) uint64 { return xxhash.Sum64String(host) }
