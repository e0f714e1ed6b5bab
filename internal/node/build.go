package node

import (
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"golang.org/x/mod/module"
)

// A Build describes how the program was built, as JSON. Fields that Go did not record are empty.
type Build struct {
	Version  string `json:"version"`            // as in the User-Agent
	Module   string `json:"module,omitempty"`   // the version of the module by Go's rules
	Commit   string `json:"commit,omitempty"`   // the whole hash, or its first 12 digits
	Date     string `json:"date,omitempty"`     // of the commit, RFC 3339 in UTC
	Modified bool   `json:"modified,omitempty"` // the sources differ from the commit
	Go       string `json:"go,omitempty"`
	Platform string `json:"platform,omitempty"` // operating system and processor, such as linux/amd64
}

// BuildOf reads what Go recorded in the program. A build in a checkout has the commit. A build by
// "go install MODULE@VERSION" has the module's version, which names the commit unless it is a release.
func BuildOf(bi *debug.BuildInfo) Build {
	b := Build{Version: Version}
	if bi == nil {
		return b
	}
	b.Go = bi.GoVersion
	set := map[string]string{}
	for _, s := range bi.Settings {
		set[s.Key] = s.Value
	}
	if set["GOOS"] != "" {
		b.Platform = set["GOOS"] + "/" + set["GOARCH"]
	}
	b.Commit, b.Date, b.Modified = set["vcs.revision"], set["vcs.time"], set["vcs.modified"] == "true"
	if v := bi.Main.Version; v != "" && v != "(devel)" {
		b.Module = v
		v = strings.TrimSuffix(v, "+dirty")
		if at, err := module.PseudoVersionTime(v); err == nil && b.Commit == "" {
			b.Date = at.UTC().Format(time.RFC3339)
			b.Commit, _ = module.PseudoVersionRev(v) // it has a time, so it has a commit
		}
	}
	return b
}

// String returns one line for each fact that is known.
func (b Build) String() string {
	var s strings.Builder
	fmt.Fprintf(&s, "orbweaver %s\n", b.Version)
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&s, "%-9s %s\n", name, value)
		}
	}
	commit := b.Commit
	if b.Modified {
		commit += " (modified)"
	}
	line("commit", commit)
	line("date", b.Date)
	line("go", strings.TrimSpace(b.Go+" "+b.Platform))
	return s.String()
}
