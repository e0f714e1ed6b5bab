package gen

import (
	"fmt"
	"math"
	"net/netip"
	"sync"
)

// A Web is a generated web. It implements testweb.Origin and testweb.Changing. It is safe for concurrent use.
type Web struct {
	spec  Spec
	seed  uint64
	sizes law

	sites    int64
	division division // of the Graph or of texts; empty without them
	texts    *TextWeb // nil: pages have words of the vocabulary
	period   int64    // number of sites after which all pairs of topic and language repeat
	inverse  int64    // of stride, modulo period
	slotLang [langSlots]uint8
	langSlot [numLanguages][2]uint8 // for each language its first slot and their number

	children   int64 // of a page in the tree of its host
	fates      fates
	crosslinks crosslinks
	kit        *kit
	lengths    []uint32 // quantiles of the page length, in units of PageBytes/65536
	blocks     blockStore
	pool       sync.Pool // of *builder
	changes    *changing // nil: the pages do not change
}

// New makes a web. It allocates no memory for hosts and pages. The error tells which value of the Spec is not valid.
func New(spec Spec) (*Web, error) {
	spec, err := spec.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("generated web: %w", err)
	}
	w := &Web{spec: spec, seed: mix(spec.Seed + golden)}
	if spec.Changes != nil {
		if w.changes, err = newChanging(*spec.Changes); err != nil {
			return nil, fmt.Errorf("generated web: %w", err)
		}
	}
	w.sizes = newLaw(&spec, w.hash(saltSize, 0, 0))
	if spec.Graph != nil {
		w.divide()
	}
	w.layOut()
	w.planLinks()
	w.planFates()
	if err := w.planCrosslinks(); err != nil {
		return nil, fmt.Errorf("generated web: %w", err)
	}
	w.kit = newKit(spec.Topics, spec.Languages)
	w.lengths = lengthQuantiles()
	w.blocks.init(spec.Topics, spec.Languages)
	w.tune()
	w.pool.New = func() any { return new(builder) }
	return w, nil
}

func (w *Web) Hosts() int64 { return w.spec.Hosts }

// Ten consecutive hosts are six sites, of 1, 1, 2, 1, 4 and 1 hosts.
const (
	rowHosts = 10
	rowSites = 6
)

var (
	siteOfHost  = [rowHosts]int64{0, 1, 2, 2, 3, 4, 4, 4, 4, 5}
	placeOfHost = [rowHosts]int64{0, 0, 0, 1, 0, 0, 1, 2, 3, 0}
	firstHost   = [rowSites]int64{0, 1, 2, 4, 5, 9}
	hostsOfSite = [rowSites]int64{1, 1, 2, 1, 4, 1}
)

// site returns the number of a host's site and the host's place in it.
func site(host int64) (site, place int64) {
	return host/rowHosts*rowSites + siteOfHost[host%rowHosts], placeOfHost[host%rowHosts]
}

// hostOf returns the host of a site that x selects.
func (w *Web) hostOf(site int64, x uint64) int64 {
	j := site % rowSites
	return min(site/rowSites*rowHosts+firstHost[j]+int64(below(x, uint64(hostsOfSite[j]))), w.spec.Hosts-1)
}

// langSlots is the number of slots among which languages divide the hosts of a topic. English has the most slots.
const langSlots = 32

var langWeights = [numLanguages]int{9, 2, 2, 2, 1, 1, 1, 1, 2}

// stride is a prime that divides no period.
const stride = 7919

// layOut assigns topics and languages to the sites.
func (w *Web) layOut() {
	last, _ := site(w.spec.Hosts - 1)
	w.sites = last + 1
	w.period = int64(w.spec.Topics) * langSlots
	for w.inverse = 1; w.inverse*stride%w.period != 1%w.period; w.inverse++ {
	}
	at := langSlots
	for l := w.spec.Languages - 1; l >= 0; l-- {
		n := max(1, langWeights[l])
		if l == 0 {
			n = at
		}
		at -= n
		w.langSlot[l] = [2]uint8{uint8(at), uint8(n)}
		for i := at; i < at+n; i++ {
			w.slotLang[i] = uint8(l)
		}
	}
}

// turn returns by how many places the sites of a period are rotated.
func (w *Web) turn(period int64) int64 {
	return int64(mix(w.seed^uint64(period)) >> 33)
}

// cell returns the topic of a site and the slot of its language.
func (w *Web) cell(site int64) (topic, slot int64) {
	r := (site%w.period*stride + w.turn(site/w.period)) % w.period
	return r % int64(w.spec.Topics), r / int64(w.spec.Topics)
}

// siteAt returns the site of a period with this topic and language slot. The web may be too small to have it.
func (w *Web) siteAt(period, topic, slot int64) int64 {
	r := slot*int64(w.spec.Topics) + topic - w.turn(period)%w.period
	if r < 0 {
		r += w.period
	}
	return period*w.period + r*w.inverse%w.period
}

// Topic returns the number of a host's topic, from 0. Only pages in the first language have words of their topic.
func (w *Web) Topic(host int64) int {
	topic, _ := w.topicAndLanguage(host)
	return topic
}

// topicAndLanguage returns the numbers of a host's topic and language.
func (w *Web) topicAndLanguage(host int64) (topic, language int) {
	s, _ := site(host)
	t, slot := w.cell(s)
	return int(t), int(w.slotLang[slot])
}

// Pages returns the number of pages of a host.
func (w *Web) Pages(host int64) int64 {
	return w.sizeOf(w.source(host))
}

// sizeOf returns the number of pages of a host that is not a mirror.
func (w *Web) sizeOf(host int64) int64 {
	if f := w.division.first; f != nil {
		return int64(f[host+1] - f[host])
	}
	return w.sizes.size(host)
}

// A law assigns sizes to hosts so that they have a Pareto distribution.
type law struct {
	hosts, stride, turn uint64
	unstride            uint64  // multiplied with stride gives 1 modulo hosts
	scale               float64 // smallest size, before rounding down
	most                int64
	largest             [16]int64
}

// newLaw assigns sizes to the hosts so that each quantile occurs once. Therefore the mean is right even for a few
// hosts. The exponent of 4/3 needs only square roots, which every machine rounds alike.
func newLaw(s *Spec, random uint64) (l law) {
	l = law{hosts: uint64(s.Hosts), scale: paretoScale(s.PagesMean, s.MaxPages), most: s.MaxPages}
	l.turn = below(random, l.hosts)
	for l.stride = below(golden, l.hosts) | 1; gcd(l.stride, l.hosts) != 1; l.stride += 2 {
	}
	l.unstride = inverse(l.stride, l.hosts)
	// The quantiles of the largest sizes are wide, so these have the means of their quantiles.
	const parts = 4096
	for rank := range l.largest {
		sum := int64(0)
		for i := range parts {
			sum += l.at((float64(rank) + (float64(i)+0.5)/parts) / float64(l.hosts))
		}
		l.largest[rank] = sum / parts
	}
	return l
}

func gcd(a, b uint64) uint64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// at returns the size at quantile u, counted from the largest.
func (l *law) at(u float64) int64 {
	s := math.Sqrt(u)
	return min(max(int64(l.scale/(s*math.Sqrt(s))), 1), l.most)
}

// size returns the size of a host.
func (l *law) size(host int64) int64 { return l.sizeAt(l.rank(host)) }

// rank returns the rank of a host by size. The largest host has rank 0.
func (l *law) rank(host int64) uint64 {
	rank := mulmod(uint64(host)%l.hosts, l.stride, l.hosts)
	if rank += l.turn; rank >= l.hosts {
		rank -= l.hosts
	}
	return rank
}

// host returns the host of a rank.
func (l *law) host(rank uint64) int64 {
	if rank < l.turn {
		rank += l.hosts
	}
	return int64(mulmod(rank-l.turn, l.unstride, l.hosts))
}

// sizeAt returns the size of the host of a rank.
func (l *law) sizeAt(rank uint64) int64 {
	if rank < uint64(len(l.largest)) {
		return l.largest[rank]
	}
	return l.at((float64(rank) + 0.5) / float64(l.hosts))
}

// paretoScale returns the scale x for which x*u^(-3/4), rounded down to 1..most, has this mean.
func paretoScale(mean float64, most int64) float64 {
	// The mean is the sum of P(size >= k) = min(1, (x/k)^(4/3)).
	const exact = 4096
	of := func(x float64) float64 {
		sum := 0.0
		for k := 1.0; k <= min(exact, float64(most)); k++ {
			r := x / k
			if r >= 1 || k == 1 {
				sum++
			} else {
				sum += r * math.Cbrt(r)
			}
		}
		if a, b := exact+0.5, float64(most)+0.5; b > a {
			flat := min(max(x, a), b)
			sum += flat - a + 3*x*math.Cbrt(x)*(1/math.Cbrt(flat)-1/math.Cbrt(b))
		}
		return sum
	}
	lo, hi := 0.0, float64(most)+1
	for range 60 {
		mid := (lo + hi) / 2
		if of(mid) < mean {
			lo = mid
		} else {
			hi = mid
		}
	}
	// Rounded, so that machines with other rounding make the same web.
	return math.Round(hi*4096) / 4096
}

// sharedSites is how many sites share an address. Equally many sites have their own.
const sharedSites = 8

// maxAddresses is the number of addresses that addr uses, from 127.1.0.1 to 127.254.255.254.
const maxAddresses = 254 * 256 * 254

// addr returns the address of a host.
func (w *Web) addr(host int64) netip.Addr {
	i := host
	switch {
	case w.spec.Addresses > 0:
		i = host % w.spec.Addresses
	case w.spec.Addresses == 0:
		s, _ := site(host)
		group, r := s/(2*sharedSites), s%(2*sharedSites)
		i = group*(sharedSites+1) + min(r, sharedSites)
	}
	i %= maxAddresses
	return netip.AddrFrom4([4]byte{127, byte(1 + i/254/256), byte(i / 254), byte(1 + i%254)})
}
