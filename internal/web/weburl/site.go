package weburl

import (
	"hash/maphash"
	"strings"
	"sync/atomic"

	"golang.org/x/net/publicsuffix"
)

// Site is the registered domain (public suffix and one label), or the host where there is none.
func (u URL) Site() string { return Site(u.Host()) }

// Site is the registered domain of host, or host itself (an address, a bare
// suffix). Both sections of the Public Suffix List count: two blogs at
// github.io belong to different people, and are two sites. host must be in
// canonical form, as URL.Host gives it.
func Site(host string) string {
	if len(host) == 0 || len(host) > maxHost {
		return host
	}
	hash := maphash.String(sitesSeed, host)
	slot := &sites[hash%uint64(len(sites))]
	if e := slot.Load(); e != 0 && (e^hash)&^siteMask == 0 {
		return host[len(host)-int(e&siteMask):]
	}
	suffix, _ := publicSuffix(host)
	site := plusOne(host, suffix)
	slot.Store(hash&^siteMask | uint64(len(site)))
	return site
}

// ICANNSite is Site by the list's ICANN section alone: the domain that
// somebody registered, whatever its owner lets out below it. All of github.io
// is one.
func ICANNSite(host string) string {
	if len(host) == 0 || len(host) > maxHost {
		return host
	}
	suffix, icann := publicSuffix(host)
	for !icann {
		_, parent, ok := strings.Cut(suffix, ".")
		if !ok {
			break // no rule at all: the last label is the suffix
		}
		suffix, icann = publicSuffix(parent)
	}
	return plusOne(host, suffix)
}

// sites remembers recent answers, because the list's lookup allocates and is
// asked of every link. A host has one slot, the newest wins: 512 KiB. A slot is
// one word, which is read and written without a lock: the length of the site in
// the lowest octet (a site has 1 to 253), above it what is left of the host's
// hash, of which eight bits follow from the slot. So a host is taken for the
// slot's, and given the length of its site, with a chance of 2^-48, by a hash
// that nobody outside can foresee: once in 28,000 crawls of 10^10 answers.
var (
	sites     [1 << 16]atomic.Uint64
	sitesSeed = maphash.MakeSeed()
)

const siteMask = 0xff

// publicSuffix is the suffix of host, which is host itself for an address.
func publicSuffix(host string) (suffix string, icann bool) {
	if host[0] == '[' {
		return host, true
	}
	suffix, icann = publicsuffix.PublicSuffix(host)
	if suffix == host && endsInNumber(host) {
		icann = true
	}
	return suffix, icann
}

// plusOne is suffix and the label before it, or host where that label is
// missing or empty.
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
