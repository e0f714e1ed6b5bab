package node

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/crawl/strategy"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/frontier"
	"github.com/orbweaver/orbweaver/internal/input"
	"github.com/orbweaver/orbweaver/internal/node/admin"
	"github.com/orbweaver/orbweaver/internal/node/membership"
	"github.com/orbweaver/orbweaver/internal/node/past"
	"github.com/orbweaver/orbweaver/internal/node/standing"
	"github.com/orbweaver/orbweaver/internal/rate"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/warc"
	"github.com/orbweaver/orbweaver/internal/web/dns"
	"github.com/orbweaver/orbweaver/internal/web/fetch"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/robots"
	"github.com/orbweaver/orbweaver/internal/web/scope"
	"github.com/orbweaver/orbweaver/internal/web/sheet"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// Version is the version of the program, for User-Agent and warcinfo. Between releases it is
// the next version with "-dev"; CHANGELOG.md names that version.
const Version = "0.1.0-dev"

// productName is the product in the default User-Agent, and so the name under
// which robots.txt files know the crawler by default.
const productName = "orbweaver"

// A Page is what Config.Pages receives.
type Page = visit.Page

// Config configures one crawl on one agent, with the configuration of each part of the
// agent. Dir and Seeds are required; the zero values of all other fields are polite and
// safe.
type Config struct {
	// Dir is the crawl directory.
	Dir string
	// Seeds are the URLs that the crawl starts from. A seed without a scheme is https, or http if no
	// https connection can be made.
	Seeds []string
	// Resume continues the crawl in Dir. Overwrite deletes it and starts a new one. If
	// both are false, Dir must not hold a crawl.
	Resume, Overwrite bool
	// Unblock names blocked hosts of the crawl in Dir to crawl again; see
	// Agent.NotBlocked. It requires Resume.
	Unblock []string
	// ExcludeFile is a file with hosts, domains, ranges of addresses and patterns for URLs that this agent does not
	// visit, one on each line. The agent reads it again when it changes. Empty means none.
	ExcludeFile string
	// Contact is a URL or mail address at which the operator can be reached;
	// it goes into the User-Agent. Without it only loopback is crawled.
	Contact string
	// UserAgent is the whole User-Agent header. Empty means
	// "Mozilla/5.0 (compatible; orbweaver/VERSION; +CONTACT)". A mail address goes into the From header instead.
	UserAgent string
	// RobotsAgent is the product token whose groups in robots.txt, robots meta
	// and X-Robots-Tag the crawl obeys. Empty means robots.ProductToken of the
	// User-Agent header.
	RobotsAgent string
	// MemoryBytes bounds the caches and queues of the process. Zero means 1 GiB. The program
	// must limit the garbage collector itself: see RuntimeLimit.
	MemoryBytes int64
	// Strategy opens the strategy, which chooses the next page, when the directory for
	// its files exists. If the strategy has a method Close() error, the agent calls it
	// when it closes. If it has WriteReport(fs disk.FS, dir string) error, the agent calls
	// it at the end with the directory of the reports. Nil means breadth-first.
	Strategy func(strategy.Place) (visit.Strategy, error)
	// Pages receives each response that ends a URL's visits; see visit.Pages. Nil drops
	// them.
	Pages visit.Pages
	// PagesTo is what receives the pages, for the status; see crawl.Parts.
	PagesTo string
	// NearDuplicates says what becomes of a page whose text is nearly that of an archived one: NearOff, NearMark or
	// NearDrop. Empty means NearOff.
	NearDuplicates string
	// Earlier names the earlier crawls to whose records the archive refers.
	Earlier past.EarlierConfig
	// Links writes the link log: which page links to which URL; see package linklog.
	Links bool
	// SegmentTables says which Parquet tables a segment gets: "all", "index" or "none". Empty means none.
	SegmentTables string
	// Effective is the content of crawl.yaml: the flags in effect. Empty writes an empty
	// set of flags.
	Effective []byte
	// Settings are those of which the configuration was made, without secrets, for the console (package settings). Nil:
	// it was made by hand.
	Settings []admin.Setting
	// FS is the file system that the agent writes to. Nil means the machine's disk.
	FS disk.FS
	// Hosts are the settings of parts of the web. Nil means none.
	Hosts *sheet.Table

	// Cluster configures the cooperation with other agents. Nil crawls alone.
	Cluster *membership.Config
	// Note receives messages for the operator, such as what the agent waits for. It must
	// be safe for concurrent use. Nil drops them.
	Note func(text string)
	// Clock is the agent's clock. All times come from it that are written, sent to others, or
	// compared with such times. Timers and the deadlines of connections keep the machine's
	// clock. Its times have monotonic readings of this process, like those of time.Now. Safe for
	// concurrent use; nil means clock.System.
	Clock clock.Clock

	// Rate is the limit of requests or bits a second, of all agents together. The zero Schedule is no limit.
	Rate rate.Schedule

	// Store is where the segments of the archive are sent. Without a URL they stay here.
	Store past.Place
	// LocalArchive bounds what the segments take here, in bytes: the oldest that the store has are removed. nil: they
	// stay.
	LocalArchive *int64
	// StoreState is the time from one saved state of the crawl in Store to the next one. Zero saves none.
	StoreState time.Duration
	// adopted: the agent has the name and the state of one that was lost, and leaves at once; see member.Adopt.
	adopted bool

	Crawl    crawl.Config
	Scope    scope.Config
	Frontier frontier.Config
	Robots   robots.Config
	DNS      dns.Config
	Fetch    fetch.Config
	Archive  warc.Config
}

// mails reports whether the contact is a mail address.
func (c *Config) mails() bool {
	return strings.Contains(c.Contact, "@") && !strings.Contains(c.Contact, "://")
}

// Identity returns the User-Agent header and the product token whose robots.txt groups the
// crawl obeys. The error is an *input.ConfigError.
func (c *Config) Identity() (userAgent, token string, err error) {
	userAgent, token = c.UserAgent, c.RobotsAgent
	if strings.ContainsAny(userAgent, "\r\n") {
		return "", "", input.Errorf("{user-agent} %q contains a line break; give one line", userAgent)
	}
	if userAgent == "" {
		userAgent = "Mozilla/5.0 (compatible; " + productName + "/" + Version
		if c.Contact != "" && !c.mails() {
			userAgent += "; +" + c.Contact
		}
		userAgent += ")"
	}
	if token == "" {
		if token = robots.ProductToken(userAgent); token == "" {
			return "", "", input.Errorf("{user-agent} %q names no product that a robots.txt could name; "+
				"begin with a product such as mybot/1.0, or name one with {robots-agent}", userAgent)
		}
	}
	if !robots.IsToken(token) {
		return "", "", input.Errorf("{robots-agent} %q: use only letters, digits, - and _, such as mybot", token)
	}
	return userAgent, token, nil
}

// seeds parses Seeds. The result bare holds those without a scheme.
func (c *Config) seeds() (us []weburl.URL, bare map[weburl.URL]bool, _ error) {
	have := map[weburl.URL]bool{}
	bare = map[weburl.URL]bool{}
	for _, s := range c.Seeds {
		t, err := input.ParseURL("seed", s)
		if err != nil {
			return nil, nil, err
		}
		switch {
		case !have[t.URL]:
			have[t.URL] = true
			us = append(us, t.URL)
			if t.Bare {
				bare[t.URL] = true
			}
		case !t.Bare:
			delete(bare, t.URL) // the same URL with its scheme
		}
	}
	return us, bare, nil
}

// check refuses settings that are impolite or cannot work.
func (c *Config) check(seeds []weburl.URL) error {
	if c.Dir == "" {
		return input.Errorf("no crawl directory: give one with {dir}")
	}
	if c.Resume && c.Overwrite {
		return input.Errorf("{resume} and {overwrite} cannot be combined: either continue the crawl or delete it")
	}
	if len(c.Unblock) > 0 && !c.Resume {
		return input.Errorf("{unblock} %s: a new crawl has no blocked hosts; continue an existing one with {resume}",
			c.Unblock[0])
	}
	if err := standing.CheckUnblock(c.Unblock); err != nil {
		return err
	}
	if c.Cluster != nil {
		fsys := cmp.Or(c.FS, disk.OS)
		if _, err := c.Cluster.Check(fsys, c.Clock); err != nil {
			return err
		}
		if err := c.checkTopic(); err != nil {
			return err
		}
	}
	if err := c.checkEarlier(); err != nil {
		return err
	}
	if err := past.CheckStore(c.FS, c.Dir, c.Store, c.Resume); err != nil {
		return err
	}
	if len(seeds) == 0 && !c.Resume {
		return input.Errorf("no seeds: give at least one URL, or some with {seeds}")
	}
	if c.Contact == "" && c.Fetch.Proxy != nil {
		return input.Errorf("no contact: a crawl through a proxy needs {contact}, " +
			"a URL or mail address at which the operators of sites can reach you")
	}
	if c.Contact == "" {
		for _, u := range seeds {
			if !input.IsLoopback(u.Host()) {
				return input.Errorf("no contact: crawling %s needs {contact}, a mail address or URL at which "+
					"its operators can reach you", u.Host())
			}
		}
	} else if !strings.Contains(c.Contact, "@") && !strings.Contains(c.Contact, "://") ||
		strings.ContainsAny(c.Contact, "()\r\n") {
		return input.Errorf("{contact} %q: give a URL such as https://example.org/crawler or a mail address such as "+
			"ops@example.org, without parentheses", c.Contact)
	}
	if _, _, err := c.Identity(); err != nil {
		return err
	}
	for name, d := range map[string]time.Duration{"ip-delay": c.Frontier.IPDelay, "site-delay": c.Frontier.SiteDelay,
		"time-limit": c.Crawl.TimeLimit} {
		if d < 0 {
			return input.Errorf("{"+name+"} %s is negative; give a duration such as 500ms, or 0", d)
		}
	}
	if s := c.Frontier.HostShare; !(s >= 0 && s <= 1) {
		return input.Errorf("{host-share} %g: give a share from 0 to 1, such as 0.002 or 0.2%%", s)
	}
	return enoughDescriptors(c.Crawl.Workers, disk.MaxOpen())
}

// checkTopic returns an *input.ConfigError if the crawl cannot be divided by topic.
func (c *Config) checkTopic() error {
	if c.Cluster.ByPages() && c.Crawl.HostPageLimit > 0 {
		return input.Errorf("{host-page-limit} %d: with {partition} %s no agent counts the pages of the others; "+
			"leave it out", c.Crawl.HostPageLimit, membership.PartitionTopic)
	}
	return nil
}

// filesOpen is the number of file descriptors of an agent besides its connections to hosts:
// journal, archive, key set, logs, API and name servers.
const filesOpen = 64

// enoughDescriptors refuses more workers than there are file descriptors for. Idle connections and
// slow visits may take a quarter of the descriptors each. descriptors is 0 if the number is
// unknown.
func enoughDescriptors(workers, descriptors int) error {
	if most := (descriptors - filesOpen) / 2; descriptors > 0 && workers > most {
		return input.Errorf("{workers} %d: the process may open %d files, enough for %d workers; give fewer workers, "+
			"or raise the limit to %d (ulimit -n, or LimitNOFILE= of a systemd unit)",
			workers, descriptors, max(most, 0), 2*workers+filesOpen)
	}
	return nil
}

// rehearse creates the parts that need no disk, so that it finds a wrong setting before there is a
// crawl directory.
func (c *Config) rehearse(seeds []weburl.URL) error {
	files := cmp.Or(c.FS, disk.OS)
	if err := standing.CheckBlacklist(files, c.ExcludeFile); err != nil {
		return err
	}
	if len(seeds) > 0 {
		cfg := c.Scope
		cfg.Sheets = &sheet.Live{}
		cfg.Sheets.Set(c.Hosts)
		s, err := scope.New(cfg, seeds)
		if err != nil {
			return input.SettingError(err)
		}
		if !slices.ContainsFunc(seeds, func(u weburl.URL) bool { return s.Judge(link.Link{URL: u}).In }) {
			return input.Errorf("{exclude} matches %s and every other seed; remove the pattern, or give other seeds",
				seeds[0])
		}
		for _, u := range c.Crawl.Sitemaps.Named {
			if d := s.Judge(visit.NamedSitemap(u, seeds)); !d.In && !c.Resume {
				return input.Errorf("{sitemaps}: %s is not in the crawl: %s; name a sitemap of a host of the crawl", u,
					report.ReasonText(string(d.Reason), d.Rule))
			}
		}
	}
	f, err := fetch.New(c.Fetch)
	if err != nil {
		return input.SettingError(err)
	}
	f.Close()
	if c.Fetch.LooksUp() {
		r, err := dns.New(c.DNS)
		if err != nil {
			return input.SettingError(err)
		}
		r.Close()
	}
	return nil
}
