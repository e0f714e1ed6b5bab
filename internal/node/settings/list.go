// Package settings answers: which settings does a crawl have, and what do their values change?
//
// Settings is the one list. The program reads flags, variables and files into it, the library its Options; both take
// checks, texts and the configuration of the agent from it. A tag of a field tells one thing about the setting:
//
//	name         how it is called, if not like the field: PageLimit is page-limit
//	default      its value if none is given, as people write it
//	enum         its values, separated by commas
//	placeholder  what its value is, for help: FILE and DIR are names of files
//	option       the field of the library's Options, "" for one of the same name; Walk.Jump is one of WalkOptions
//	into         the fields of target that get it, separated by commas
//	at           both, if they are the same
//	negative     what a negative option means; without it, a negative one is an error
//	least, most  the bounds of a number; above is a least value that is itself too little
//	zero         the number that stands for zero in node.Config, where zero is the default
//	with         the settings with which alone it has an effect, as in "strategy=walk"
//	for          "run": a crawl that continues does not keep it
//	negatable    there is a flag that turns it off, because the program has it on in some crawls: see With...
package settings

import (
	"time"

	"github.com/orbweaver/orbweaver/internal/quantity"
	"github.com/orbweaver/orbweaver/internal/rate"
	"github.com/orbweaver/orbweaver/internal/web/scope"
)

// Settings are the settings of a crawl. Defaults has those of a crawl for which a person has given none.
type Settings struct {
	Bounds     Bounds     `embed:"" group:"Scope and limits"`
	Limits     Limits     `embed:"" group:"Scope and limits"`
	Order      Order      `embed:"" group:"Strategy"`
	Politeness Politeness `embed:"" group:"Politeness"`
	Fetching   Fetching   `embed:"" group:"Fetching"`
	Output     Output     `embed:"" group:"Output"`
	Cluster    Cluster    `embed:"" group:"Cluster"`
}

// Bounds say which URLs a crawl visits.
type Bounds struct {
	Scope   scope.Kind `default:"host" enum:"${scopes}" placeholder:"KIND" option:"Scope.Kind" into:"Scope.Scope"`
	Include []string   `placeholder:"RE" sep:"none" at:"Scope.Include"`
	Exclude []string   `placeholder:"RE" sep:"none" at:"Scope.Exclude"`

	Depth int `short:"l" default:"-1" placeholder:"N" least:"-1" option:"Scope.MaxDepth" into:"Scope.Depth"`

	HostDepth int `default:"-1" placeholder:"N" least:"-1" option:"Scope.MaxHostDepth" into:"Scope.HostDepth"`
}

// Limits say when a crawl ends, and what it fetches and keeps besides.
type Limits struct {
	ExcludeFile   string            `placeholder:"FILE" aliases:"blacklist" at:"ExcludeFile"`
	PageLimit     int64             `placeholder:"N" least:"0" option:"" into:"Crawl.PageLimit"`
	HostPageLimit int64             `placeholder:"N" least:"0" option:"" into:"Crawl.HostPageLimit"`
	SizeLimit     quantity.ByteSize `placeholder:"BYTES" least:"0" option:"" into:"Crawl.SizeLimit"`
	TimeLimit     time.Duration     `placeholder:"D" least:"0s" option:"" into:"Crawl.TimeLimit" for:"run"`
	MinFreeDisk   quantity.ByteSize `default:"1GB" placeholder:"BYTES" least:"0" into:"Crawl.MinFreeDisk"`
	Requisites    bool              `negatable:"" option:"" into:"Crawl.Requisites"`
	Sitemaps      Sitemaps          `negatable:"" option:""`
	SitemapFrom   Date              `placeholder:"DATE" with:"sitemaps" into:"Crawl.Sitemaps.From"`
	SeedRoots     bool              `option:"" into:"Crawl.SeedRoots"`
	Keep          []string          `placeholder:"RE|TYPE" sep:"none" option:"Archive.Keep"`
	ObeyNoarchive bool              `option:"Archive.ObeyNoArchive" into:"Crawl.ObeyNoArchive"`

	NearDuplicates string `default:"off" enum:"off,mark,drop" placeholder:"MODE" at:"NearDuplicates"`
}

// WithRequisites reports whether a crawl of a scope with a strategy fetches requisites by default. Pages without
// images and styles are of little use, but a crawl of many sites would spend most of its requests on them. A list names
// all that is wanted, and a walk is a sample of pages.
func WithRequisites(k scope.Kind, strategy string) bool {
	return k != scope.Domain && k != scope.Any && strategy != "list" && strategy != "walk"
}

// WithSitemaps reports whether a crawl of a scope with a strategy follows sitemaps by default: those of whole hosts and
// domains do. A sitemap lists the pages of a whole site.
func WithSitemaps(k scope.Kind, strategy string) bool {
	return (k == scope.Host || k == scope.Domain) && strategy != "list" && strategy != "walk"
}

// Order is in which order URLs are visited, and which are visited again.
type Order struct {
	Strategy string `enum:"bfs,focused,list,recrawl,walk" default:"bfs" placeholder:"KIND"`

	Topic []string `placeholder:"NAME" with:"strategy=focused" option:"Focused.Topics"`

	Model string `default:"topics" placeholder:"FILE" with:"strategy=focused,partition=topic" option:"Focused.Model"`

	RecrawlMin    time.Duration `default:"1h" placeholder:"D" above:"0s" with:"strategy=recrawl" at:"Recrawl.Min"`
	RecrawlMax    time.Duration `default:"720h" placeholder:"D" above:"0s" with:"strategy=recrawl" at:"Recrawl.Max"`
	RecrawlRounds int           `placeholder:"N" least:"0" with:"strategy=recrawl" at:"Recrawl.Rounds"`

	Walkers int `default:"16" placeholder:"N" least:"1" most:"10000" with:"strategy=walk" at:"Walk.Walkers"`

	WalkSteps int     `default:"100000" placeholder:"N" least:"1" with:"strategy=walk" at:"Walk.Steps"`
	WalkJump  float64 `default:"0.15" placeholder:"P" least:"0" most:"1" with:"strategy=walk" at:"Walk.Jump" zero:"-1"`
	WalkSeed  uint64  `default:"1" placeholder:"N" with:"strategy=walk" into:"Walk.Seed"`
}

// Politeness is how fast a crawl may be, and who it says it is.
type Politeness struct {
	Delay quantity.Delay `default:"2s" placeholder:"D" least:"0s" most:"168h" option:"" negative:"0s"`

	DelayFactor float64       `default:"5" placeholder:"N" above:"0" most:"1000" with:"delay=auto" option:""`
	DelayMin    time.Duration `default:"2s" placeholder:"D" least:"0s" with:"delay=auto"`
	DelayMax    time.Duration `default:"30s" placeholder:"D" least:"0s" most:"168h" with:"delay=auto" option:""`

	IPDelay   *time.Duration `name:"ip-delay" placeholder:"D" least:"0s" into:"Frontier.IPDelay"`
	SiteDelay *time.Duration `placeholder:"D" least:"0s" into:"Frontier.SiteDelay"`
	HostShare quantity.Share `placeholder:"SHARE" least:"0" most:"1" option:"" into:"Frontier.HostShare"`
	SlowDown  time.Duration  `default:"60s" placeholder:"D" above:"0s" into:"Frontier.SlowBase"`

	Retries int `default:"4" placeholder:"N" least:"0" option:"" negative:"0" into:"Crawl.Retries" zero:"-1"`

	RetryWait time.Duration `default:"30s" placeholder:"D" above:"0s" option:"" into:"Crawl.RetryWait,Robots.RetryWait"`

	Rate        rate.Schedule `placeholder:"RATE" at:"Rate"`
	UserAgent   string        `placeholder:"S" at:"UserAgent"`
	RobotsAgent string        `placeholder:"NAME" at:"RobotsAgent"`
	Contact     string        `placeholder:"URL|MAIL" at:"Contact"`
}

// Fetching is how a crawl looks names up, connects, asks and downloads.
type Fetching struct {
	Workers int               `default:"64" placeholder:"N" least:"1" most:"10000" option:"" into:"Crawl.Workers"`
	Memory  quantity.ByteSize `default:"1GiB" placeholder:"BYTES" least:"128MiB" option:"" into:"MemoryBytes"`

	Header       []string `placeholder:"'NAME: VALUE'" sep:"none" option:"Headers"`
	Cookies      bool
	CookieFile   string            `placeholder:"FILE"`
	AuthFile     string            `placeholder:"FILE"`
	DNS          []string          `name:"dns" placeholder:"ADDR" option:"" into:"DNS.Servers"`
	ConnectTo    []string          `placeholder:"HOST:PORT:ADDR:PORT" option:"" into:"Fetch.ConnectTo"`
	CA           string            `name:"ca" placeholder:"FILE" into:"Fetch.CAFile"`
	Insecure     bool              `into:"Fetch.Insecure"`
	Proxy        string            `placeholder:"URL" option:""`
	AllowPrivate bool              `option:"" into:"Fetch.AllowPrivate"`
	MaxBody      quantity.ByteSize `default:"256MiB" placeholder:"BYTES" above:"0" into:"Fetch.MaxBody"`
	MaxTime      time.Duration     `default:"5m" placeholder:"D" above:"0s" into:"Fetch.TotalTimeout"`
	MinRate      quantity.ByteSize `default:"100" placeholder:"BYTES" into:"Fetch.MinRate" zero:"-1"`

	Timeout     time.Duration `default:"30s" placeholder:"D" above:"0s" into:"Fetch.FirstByteTimeout,Fetch.IdleTimeout"`
	DialTimeout time.Duration `default:"15s" placeholder:"D" above:"0s" into:"Fetch.ConnectTimeout,Fetch.TLSTimeout"`
}

// Output is what a crawl writes.
type Output struct {
	WARCPrefix string `name:"warc-prefix" default:"orbweaver" placeholder:"S" into:"Archive.Prefix"`

	WARCSize quantity.ByteSize `name:"warc-size" default:"1GB" placeholder:"BYTES" least:"1MB" into:"Archive.MaxBytes"`
	WARCInfo []string          `name:"warcinfo" placeholder:"NAME=VALUE" sep:"none"`
	Segment  quantity.Span     `placeholder:"SPAN" option:"Archive.Segment"`

	SegmentTables string `default:"all" enum:"all,index,none" placeholder:"KIND" with:"segment" option:"Archive.SegmentTables" into:"SegmentTables"`

	Store string `placeholder:"URL" option:"Archive.Store" into:"Store.URL"`

	LocalArchive *quantity.ByteSize `placeholder:"BYTES" least:"0" with:"store" option:"Archive.LocalBytes" into:"LocalArchive"`

	StoreRate   quantity.Bandwidth `placeholder:"RATE" most:"1000000GB" with:"store" option:"Archive.StoreRate" into:"Store.Rate"`
	StoreOption []string           `placeholder:"NAME=VALUE" sep:"none" with:"store" option:"Archive.StoreOptions" into:"Store.Options"`

	StoreState time.Duration `placeholder:"D" least:"0s" with:"store" option:"Archive.StoreState" into:"StoreState"`

	Outlinks bool `into:"Crawl.Outlinks"`
	Links    bool `at:"Links"`

	DedupFrom []string `placeholder:"PATH" sep:"none" option:"Archive.DedupFrom" into:"Earlier.From"`

	DedupMinSize quantity.ByteSize `default:"1KB" placeholder:"BYTES" least:"0" with:"dedup-from" option:"Archive.DedupMinSize" negative:"0" into:"Earlier.Least"`
}

// Cluster is how an agent works with others.
type Cluster struct {
	Name     string  `default:"agent" placeholder:"S" option:"Cluster.Name" into:"Archive.Agent,Cluster.Name"`
	Capacity float64 `default:"1" placeholder:"N" above:"0" most:"1000" with:"listen" at:"Cluster.Capacity"`

	Partition string `default:"rendezvous" enum:"${partitions}" placeholder:"KIND" with:"listen" at:"Cluster.Partition"`
	Boundary  string `default:"" enum:",${boundaries}" placeholder:"KIND" with:"listen" at:"Cluster.Boundary"`

	ContentHash string `default:"exact" enum:"${hashes}" placeholder:"KIND" with:"listen" at:"Cluster.ContentHash"`

	Kappa       *int     `placeholder:"N" least:"1" most:"1000" with:"listen" at:"Cluster.Kappa"`
	Coordinator []string `placeholder:"ADDR" with:"listen" at:"Cluster.Coordinators"`

	Coverage string `default:"full" enum:"full,two-level" placeholder:"KIND" with:"listen" option:"Cluster.TwoLevel"`

	Replicas int      `default:"2" placeholder:"N" least:"1" most:"2" with:"listen" at:"Cluster.Replicas"`
	OnLoss   string   `default:"keep" enum:"${on_losses}" placeholder:"HOW" with:"listen" at:"Cluster.OnLoss"`
	Listen   string   `placeholder:"ADDR" at:"Cluster.Listen"`
	Join     []string `placeholder:"ADDR" with:"listen" at:"Cluster.Join"`
	Founder  string   `placeholder:"NAME" with:"listen" at:"Cluster.Founder"`
	Keys     string   `placeholder:"DIR" with:"listen" at:"Cluster.Keys"`
	Recovery int      `default:"2" placeholder:"N" least:"1" with:"listen" into:"Cluster.Recovery"`
	Agents   int      `default:"1" placeholder:"N" least:"1" with:"listen" at:"Cluster.Agents"`
}
