package orbweaver

import (
	"context"
	"crypto/x509"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl/strategy"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/input"
	"github.com/orbweaver/orbweaver/internal/node"
	"github.com/orbweaver/orbweaver/internal/node/saving"
	"github.com/orbweaver/orbweaver/internal/node/settings"
	"github.com/orbweaver/orbweaver/internal/quantity"
	"github.com/orbweaver/orbweaver/internal/store/crawldir"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// Options describe a crawl. Dir, Seeds and Contact are required. The defaults of all other
// fields are polite and safe.
type Options struct {
	// Dir is the crawl directory, for the archive, the index, logs, reports and the state of
	// the crawl. If Dir holds a crawl, Crawl continues it. Crawl refuses a crawl of the command
	// "orbweaver crawl", and that command refuses a crawl of this package.
	Dir string
	// Overwrite deletes the crawl in Dir first. Crawl refuses a directory that holds anything
	// else.
	Overwrite bool
	// Seeds are the URLs at which the crawl begins. A seed without a scheme is https. If the
	// crawl continues, Seeds may be empty; new seeds are added.
	Seeds []string
	// Contact is a URL or mail address at which the operators of sites can reach you. The
	// crawl sends it with each request. Without it Crawl fetches from loopback addresses only.
	Contact string
	// UserAgent replaces the User-Agent. Empty means
	// "Mozilla/5.0 (compatible; orbweaver/VERSION; +CONTACT)".
	UserAgent string
	// RobotsAgent is the name that the crawl obeys in robots.txt. Empty means the product in
	// UserAgent.
	RobotsAgent string

	// OnPage gets each page: the last response to a URL, if its status is 200 to 299. Embeds
	// and sitemaps that the crawl fetches are pages, too. OnPage may keep p. Nil means that
	// pages go to the archive only.
	//
	// If OnPage returns nil, the page's URL is finished. ErrStop also finishes the URL, and
	// ends the crawl. Any other error ends the crawl, and Crawl returns it. After an error or
	// ErrStop, Crawl begins no more calls and cancels the requests under way. The next call
	// of Crawl for Dir fetches their URLs again, and that of a page with an error.
	//
	// ctx is done when the context of Crawl is done, or when another call of OnPage ends the
	// crawl. If the crawl ends by a limit, Crawl waits up to 30 s for the running calls; then
	// ctx is done. If OnPage then returns ctx's error, the next call of Crawl for Dir fetches
	// the page again. A panic in OnPage ends the program, like a panic in any goroutine.
	OnPage func(ctx context.Context, p *Page) error
	// Callbacks is the maximum number of calls of OnPage at a time. Zero means 1, so OnPage
	// needs no locks.
	Callbacks int
	// AllResponses also gives OnPage redirects and error responses. They have no Body. Use it
	// to find broken links, for example.
	AllResponses bool

	// Strategy decides which links are followed and which come first. Nil means
	// BreadthFirst.
	Strategy Strategy
	// Scope decides which links belong to the crawl. Zero means the hosts of the seeds.
	Scope Scope
	// Requisites also fetches what is needed to show a page: images, styles and scripts. The
	// command line has it on by default for most scopes; here it is off.
	Requisites bool
	// Sitemaps also fetches the sitemaps that robots.txt names, or /sitemap.xml if it names none,
	// and what they list. The command line has it on by default for whole hosts and domains; here
	// it is off.
	Sitemaps bool
	// SeedRoots also fetches the root page of each host on which Crawl visits a page, if it is in the scope. Strategy
	// is not asked about it. The strategies List and Walk do not allow it.
	SeedRoots bool
	// Archive says what the archive gets, and where it is kept.
	Archive Archive
	// NearDuplicates says what becomes of a page whose text is nearly that of an archived page: with "mark" crawl.log
	// and the archive name the other page; with "drop" the archive gets only a note that names it, and the links are
	// not followed. Empty or "off" does not compare texts.
	NearDuplicates string
	// Headers lists fields of the form "Name: value" that every request has, to every host. Each name
	// is in it once. Authorization and Cookie cannot be among them.
	Headers []string

	// Links also writes the link log, in the folder links of Dir: which page links to which URL, with the anchor text.
	// "orbweaver links" reads it.
	Links bool

	// PageLimit and HostPageLimit are the maximum number of pages (responses with status 200
	// to 299) of the crawl and of each host, over all calls of Crawl for Dir and all agents. The
	// files that pages embed, and sitemaps, do not count: see Requisites. Zero means no limit.
	PageLimit, HostPageLimit int64
	// SizeLimit is the maximum number of bytes received, over all calls. Zero means no limit.
	SizeLimit int64
	// TimeLimit is the maximum duration of one call. Zero means no limit. When it is reached,
	// Crawl begins no more requests and waits up to 30 s for the requests under way and the
	// running calls of OnPage. Then it cancels their contexts.
	TimeLimit time.Duration

	// Delay is the quiet time between the end of a response and the next request to the same
	// host. A quarter of it applies to hosts with the same address or registered domain. The
	// Crawl-delay of a robots.txt may raise it. Zero means 2 s, and a week is the most. A
	// negative Delay means none; use it for your own hosts only.
	Delay time.Duration
	// DelayFactor lets the delay of a host follow its response times: it is this multiple of them,
	// at least Delay and at most DelayMax. A slower response counts at once, a faster one by half.
	// 5 is gentle. Zero means that the delay does not follow them.
	DelayFactor float64
	// DelayMax bounds the delay with DelayFactor, at most a week. Zero means 30 s.
	DelayMax time.Duration
	// Rate bounds the requests or the bits a second of the crawl, such as "40/s" or "20Mbit", also
	// by time of day: "40/s 8-18 mon-fri, else 300/s". Several agents share it, and should have the
	// same Rate. Empty means no limit.
	Rate string
	// ExcludeFile is a file with one entry on each line: a host, a domain such as *.example.org, a
	// range of addresses, or a regular expression for URLs. Crawl visits none of them, and reads
	// the file again when it changes. Links to them wait until they are no longer in the file.
	ExcludeFile string
	// HostShare is the share of the requests of the last hour that one host may get, from 0 to 1;
	// but a host may always have one request a minute. Zero means no limit.
	HostShare float64
	// Retries is how often Crawl fetches a URL again after a temporary failure. Zero means 4; a
	// negative number means never.
	Retries int
	// RetryWait is the wait before the first retry; it doubles with each. Zero means 30 s.
	RetryWait time.Duration

	// Workers is the maximum number of pages that are fetched and handled at a time. Zero means
	// 64. Requests to slow servers do not count, up to a quarter of the file descriptors of the
	// process, 4,096 requests, and a fifth of Memory.
	Workers int
	// Memory is the budget of the crawl's memory in bytes, at least 128 MiB. Caches and queues
	// share it; what exceeds it goes to disk. Zero means 1 GiB.
	Memory int64
	// MaxPageBytes bounds Page.Body and the part of a page that is read for links. The archive
	// gets up to 256 MiB. Zero means 16 MiB.
	MaxPageBytes int64

	// AllowPrivate also crawls loopback, private and other special addresses.
	AllowPrivate bool
	// Proxy is an http, socks5 or socks5h URL. Nil connects directly.
	Proxy *url.URL
	// DNS lists name servers, each an IP address with or without a port. Empty means those of
	// the machine.
	DNS []string
	// ConnectTo lists rules HOST:PORT:ADDR:PORT, as for curl's --connect-to.
	ConnectTo []string
	// RootCAs are the authorities that sign certificates. Nil means those of the machine.
	RootCAs *x509.CertPool

	// Cluster makes this crawl one agent among others. Nil crawls alone.
	Cluster *Cluster
	// Note gets messages for people about what the crawl waits for before it can begin, such
	// as other agents. Crawl calls it concurrently. Nil discards them.
	Note func(text string)
}

// An Archive says what the archive of a crawl gets, and where it is kept. The zero Archive has all responses, in the
// folder archive of Options.Dir.
type Archive struct {
	// Keep lists which responses the archive gets: media types such as application/pdf or
	// image/*, and regular expressions for URLs. Empty means all. OnPage gets the others, too,
	// and their links are followed.
	Keep []string
	// ObeyNoArchive leaves responses out of the archive that say "noarchive" in a robots meta
	// element or X-Robots-Tag. The crawl follows their links all the same.
	ObeyNoArchive bool
	// Segment divides the archive into segments in the layout of Common Crawl, in the folder crawl-data of
	// Options.Dir. It is the span of one: a time ("1h"), a size ("1GB"), or a call of Crawl ("end"). Empty means none.
	Segment string
	// SegmentTables says which Parquet tables each segment gets: "all", "index" or "none". Empty means "all".
	SegmentTables string
	// Store is where the crawl sends each complete segment: s3://BUCKET/PREFIX, or file:///DIRECTORY for a mounted
	// directory. The credentials for S3 come from the variables, files and roles that other programs use, such as
	// AWS_ACCESS_KEY_ID. It requires Segment. Empty means that segments stay in Dir.
	Store string
	// LocalBytes bounds what segments take in Dir: the oldest that the store has are removed. It requires Store. Zero
	// means that they stay.
	LocalBytes int64
	// StoreRate bounds the bandwidth to Store, such as "40MB/s" or "320Mbit". It requires Store. Empty means no limit.
	StoreRate string
	// StoreOptions are options of an S3 store, each NAME=VALUE, such as "class=STANDARD_IA" or "encryption=AES256".
	// They require Store. docs/store.md lists them.
	StoreOptions []string
	// StoreState is the time from one saved state of the crawl in Store to the next one, such as 10 minutes. It
	// requires Store. If Dir then holds no crawl, and Store has a saved state of the crawl with the name of Dir, Crawl
	// continues that one. It fetches again what was fetched after the last saved state. After a kill it first waits up
	// to 90 s, because the process before could still run; Options.Note is told. Options.Overwrite begins anew, and
	// replaces the saved state. Each saved state ends a segment. Zero saves no state.
	StoreState time.Duration
	// DedupFrom lists archives of earlier crawls: crawl directories, CDXJ files and stores. A response whose body one
	// of them has becomes a revisit record that refers to it.
	DedupFrom []string
	// DedupMinSize is the size in bytes from which a body is looked up in DedupFrom. It requires DedupFrom. Zero means
	// 1 KB; a negative number looks up each body.
	DedupMinSize int64
}

// A Scope decides which links belong to a crawl. A link must pass all of its fields. A seed,
// and the target of a seed's redirects, must pass Exclude only.
type Scope struct {
	// Kind is how far from its seeds the crawl goes. Zero means SeedHosts.
	Kind ScopeKind
	// Include lists regular expressions in Go's syntax. They match anywhere in the canonical
	// URL. If the list is not empty, a link must match at least one of them; embeds need not.
	Include []string
	// Exclude lists regular expressions like those of Include. A URL that matches one of them
	// is outside the scope.
	Exclude []string
	// MaxDepth is the maximum number of links from a seed. Zero means no limit.
	MaxDepth int
	// MaxHostDepth is the maximum number of links within a host, from where the crawl entered it: a seed, or a URL
	// that a page of another host links to. Zero means no limit.
	MaxHostDepth int
	// Func decides about links and embeds that pass all other fields. It must always return
	// the same for the same link. Crawl calls it concurrently. Nil lets all pass. If Func
	// alone is to decide about hosts, set Kind to Anywhere.
	Func func(Link) bool
}

// A ScopeKind is how far from its seeds a crawl goes.
type ScopeKind uint8

// The kinds of scopes.
const (
	// SeedHosts: the hosts of the seeds, on any port, by http and https, with and without
	// "www.".
	SeedHosts ScopeKind = iota
	// SeedPrefixes: the directories of the seeds and what is below them.
	SeedPrefixes
	// SeedDomains: the registered domains of the seeds, such as example.co.uk.
	SeedDomains
	// Anywhere: every http and https URL.
	Anywhere
)

// A Cluster makes a crawl one agent among others. Each agent is a call of Crawl, usually on a
// machine of its own. All agents have the same Options except Dir and the Cluster's Name,
// Listen, Keys and Capacity. Each agent crawls its own hosts, and its OnPage gets their pages.
type Cluster struct {
	// Name is the name of this agent. It must differ from the names of all other agents.
	Name string
	// Listen is the IP address and port at which the other agents reach this one, such as
	// 192.0.2.1:7470. Without Keys it must be loopback.
	Listen string
	// Join lists the Listen addresses of other agents. One of them must answer. If Join is
	// empty, or if its first address is Listen, this agent starts the cluster. A host name
	// stands for all its addresses.
	Join []string
	// Founder is the name of the agent that starts the cluster, whatever the order of Join. It
	// is the same at all agents. Empty means that Join decides.
	Founder string
	// Keys is the directory that the command "orbweaver cluster keys" made for this agent.
	Keys string
	// Agents is how many agents must be present before the crawl begins. Zero means 1.
	Agents int
	// Replicas is how many agents keep the state of a host, 1 or 2. With 2, losing an agent
	// and its disk loses no URL. Zero means 2.
	Replicas int
	// OnLoss says what becomes of the pages of an archive that was lost with its agent. "keep" lists them in the
	// reports of the other agents. "refetch" fetches them again before the crawl ends, unless the agent is back by
	// then; it requires 2 Replicas. Empty means "keep".
	OnLoss string
	// Partition is how agents divide the work: "rendezvous", "ring" (UbiCrawler's), "hash", "sites" or "topic".
	// With "hash" agents also archive one full copy of identical pages, and follow only that
	// copy's links. With "sites" coordinators assign the hosts. With "topic" the category of a page names the
	// agent that archives it and follows its links. Empty means "rendezvous".
	Partition string
	// Coordinators are the addresses of all coordinators, with the partition "sites" only. The command
	// "orbweaver coordinator" starts one.
	Coordinators []string
	// TwoLevel, with the partition "sites", drops links to hosts of other agents, and crawls the root page of each
	// host instead. Pages that only other hosts link to may be missed.
	TwoLevel bool
	// Boundary, with the partition "hash" or "topic", says what becomes of a page that belongs to another agent.
	// "contents" moves the page there: it is archived there, and its links are followed from there. "urls", with
	// "topic" only, leaves the page where it was fetched; its links alone are followed from there. Empty means
	// "contents" with "topic", and with "hash" that pages stay.
	Boundary string
	// ContentHash, with the partition "hash" and the boundary "contents", is the hash that names a page's agent:
	// "exact", of the page's bytes, or "near", so that pages with nearly the same text probably come to one agent.
	// Empty means "exact".
	ContentHash string
	// Kappa is the number of replicas of an agent on the ring, from 1 to 1000, with the
	// partition "ring" only. Zero means 200.
	Kappa int
	// Capacity is this agent's share of the hosts, relative to the others'. Zero means 1.
	Capacity float64
}

// String returns the word of the setting scope: host, prefix, domain or any.
func (k ScopeKind) String() string {
	if k > Anywhere {
		return fmt.Sprintf("ScopeKind(%d)", uint8(k))
	}
	return [...]string{"host", "prefix", "domain", "any"}[k]
}

// config checks o and turns it into the configuration of a node. It brings a saved state into Dir: see fromStore.
func (o *Options) config(ctx context.Context) (node.Config, error) {
	cfg := node.Config{
		Dir: o.Dir, Seeds: o.Seeds, Overwrite: o.Overwrite, Note: o.Note,
		Effective: []byte(crawldir.ProgramMark + " Continue it with that program.\n{}\n"),
	}
	switch {
	case o.Dir == "":
		return cfg, badOption("no Options.Dir: name the directory of the crawl")
	case o.Callbacks < 0:
		return cfg, badOption("Options.Callbacks %d is negative; 0 means 1", o.Callbacks)
	case o.MaxPageBytes < 0:
		return cfg, badOption("Options.MaxPageBytes %d is negative; 0 means 16 MiB", o.MaxPageBytes)
	}
	s, err := o.settings()
	if err != nil {
		return cfg, explain(err)
	}
	if !o.Overwrite {
		if err := o.fromStore(ctx, s, cfg); err != nil {
			return cfg, explain(err)
		}
		exists, err := crawldir.HoldsCrawl(nil, o.Dir)
		if err != nil {
			return cfg, explain(err)
		}
		if ours, err := crawldir.MadeByProgram(o.Dir); err != nil {
			return cfg, explain(err)
		} else if exists && !ours {
			return cfg, badOption("Options.Dir: the crawl in %s belongs to the command line; continue it with "+
				"`orbweaver crawl --resume --dir %[1]s`", o.Dir)
		}
		cfg.Resume = exists
	}
	if err := s.Into(&cfg); err != nil {
		return cfg, explain(err)
	}
	if c := o.Cluster; c != nil && (c.Listen == "" || c.Name == "") {
		return cfg, badOption("Options.Cluster: Name %q, Listen %q: give both", c.Name, c.Listen)
	}
	if _, ours := o.Strategy.(*builtin); o.Strategy != nil && !ours {
		cfg.Strategy = func(strategy.Place) (visit.Strategy, error) { return own{o.Strategy}, nil }
	}
	if accept := o.Scope.Func; accept != nil {
		cfg.Scope.Accept = func(l link.Link) bool { return accept(newLink(&l)) }
	}
	cfg.Crawl.MaxDecoded, cfg.Fetch.CA = o.MaxPageBytes, o.RootCAs
	return cfg, nil
}

// fromStore brings the newest saved state of the crawl into Dir, if Dir holds no crawl, and the store has one. new is
// the configuration of a crawl without settings.
func (o *Options) fromStore(ctx context.Context, s *settings.Settings, new node.Config) error {
	if o.Archive.StoreState == 0 {
		return nil
	}
	if err := s.Into(&new); err != nil { // before anything is fetched
		return err
	}
	series := saving.Series{Store: new.Store, Crawl: new.Archive.Segments.Crawl, FS: disk.OS, Dir: o.Dir,
		Notes: saving.Told(o.Note)}
	if o.Cluster != nil {
		series.Agent = o.Cluster.Name
	}
	return saving.Bring(ctx, series, false)
}

// settings returns the settings that o has. Those that o leaves out have their defaults.
func (o *Options) settings() (*settings.Settings, error) {
	from, s := withStrategy{Options: o}, settings.Defaults()
	if b, ok := o.Strategy.(*builtin); ok {
		from.Focused, from.Recrawl, from.Walk = b.focused, b.recrawl, b.walk
		if s.Order.Strategy = b.name; b.name == "walk" {
			s.Order.WalkSeed = b.walk.Seed
		}
	}
	if err := s.Take(&from); err != nil {
		return nil, err
	}
	if o.Sitemaps {
		s.Limits.Sitemaps = settings.Sitemaps{"true"}
	}
	switch auto := o.DelayFactor != 0; {
	case auto:
		s.Politeness.Delay, s.Politeness.DelayMin = quantity.Auto, time.Duration(s.Politeness.Delay)
	case o.DelayMax != 0:
		return nil, badOption("Options.DelayMax %s has no effect without DelayFactor", o.DelayMax)
	}
	if o.Cluster != nil && o.Cluster.TwoLevel {
		s.Cluster.Coverage = "two-level"
	}
	for _, h := range o.Headers {
		name, _, _ := strings.Cut(h, ":")
		name = strings.TrimSpace(name)
		if slices.Contains([]string{"cookie", "authorization"}, strings.ToLower(name)) {
			return nil, input.Errorf("{header}: every host would get the %s; leave it out", name)
		}
	}
	return s, s.CheckUnused(func(string) bool { return false })
}

// withStrategy has all fields of which a setting is made: those of Options, and those of the strategies.
type withStrategy struct {
	Options *Options
	Focused FocusedOptions
	Recrawl RecrawlOptions
	Walk    WalkOptions
}
