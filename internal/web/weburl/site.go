package weburl

import (
	"hash/maphash"
	"strings"
	"sync/atomic"

	"golang.org/x/net/publicsuffix"
)

// Site returns the registered domain of u's host: the public suffix and one label. Without one it
// returns the host.
func (u URL) Site() string { return Site(u.Host()) }

// Site returns the registered domain of host, or host itself if host is an address or a bare public
// suffix. It uses both sections of the Public Suffix List: two blogs at github.io belong to
// different people and are two sites. host must be in canonical form, as URL.Host returns it. Safe
// for concurrent use.
func Site(host string) string {
	if len(host) == 0 || len(host) > maxHost {
		return host
	}
	hash := maphash.String(sitesSeed, host)
	slot := &sites[hash%uint64(len(sites))]
	if e := slot.Load(); e != 0 && (e^hash)&^siteMask == 0 {
		return host[len(host)-int(e&siteMask):]
	}
	site := plusOne(host, publicSuffix(host))
	slot.Store(hash&^siteMask | uint64(len(site)))
	return site
}

// sites caches recent results of Site, because a lookup in the list allocates and Site runs for
// every link. A host has one slot, and the newest host in a slot wins. The cache takes 512 KiB.
//
// A slot is one word, so that it needs no lock. The lowest octet is the length of the site (1 to
// 253). The other bits come from the hash of the host. A wrong host matches a slot with a chance of
// 2^-48: once in 28,000 crawls of 10^10 lookups. It then gets a site of the wrong length. An
// attacker cannot predict the hash, because its seed is random.
var (
	sites     [1 << 16]atomic.Uint64
	sitesSeed = maphash.MakeSeed()
)

const siteMask = 0xff

// publicSuffix returns the public suffix of host. The suffix of an address is the address itself.
func publicSuffix(host string) string {
	if host[0] == '[' {
		return host
	}
	suffix, _ := publicsuffix.PublicSuffix(host)
	return suffix
}

// plusOne returns suffix and the label before it. It returns host if that label is missing or
// empty.
func plusOne(host, suffix string) string {
	i := len(host) - len(suffix) - 1
	if i <= 0 || host[i] != '.' {
		return host
	}
	site := host[strings.LastIndexByte(host[:i], '.')+1:]
	if site[0] == '.' {
		return host
	}
	return site
}
