package node_test

import (
	"runtime/debug"
	"testing"

	"github.com/orbweaver/orbweaver/internal/node"
)

// The commit and its date come from the checkout, or from the module's version.
func TestBuildOf(t *testing.T) {
	settings := func(pairs ...string) (s []debug.BuildSetting) {
		for i := 0; i < len(pairs); i += 2 {
			s = append(s, debug.BuildSetting{Key: pairs[i], Value: pairs[i+1]})
		}
		return s
	}
	const hash = "0123456789abcdef0123456789abcdef01234567"
	const pseudo = "v0.0.0-20260102030405-0123456789ab"
	platform := []string{"GOOS", "linux", "GOARCH", "arm64"}
	vcs := []string{"vcs.revision", hash, "vcs.time", "2026-01-02T03:04:05Z"}
	with := func(lists ...[]string) (all []string) {
		for _, l := range lists {
			all = append(all, l...)
		}
		return all
	}
	for _, tt := range []struct {
		name string
		bi   *debug.BuildInfo
		want node.Build
	}{
		{"nothing is recorded", nil, node.Build{}},
		{"go build without a checkout", &debug.BuildInfo{GoVersion: "go1.26.0", Main: debug.Module{Version: "(devel)"},
			Settings: settings(platform...)}, node.Build{Go: "go1.26.0", Platform: "linux/arm64"}},
		{"a checkout", &debug.BuildInfo{Main: debug.Module{Version: pseudo},
			Settings: settings(with(platform, vcs, []string{"vcs.modified", "false"})...)},
			node.Build{Module: pseudo, Commit: hash, Date: "2026-01-02T03:04:05Z", Platform: "linux/arm64"}},
		{"a changed checkout", &debug.BuildInfo{Main: debug.Module{Version: pseudo + "+dirty"},
			Settings: settings(with(vcs, []string{"vcs.modified", "true"})...)},
			node.Build{Module: pseudo + "+dirty", Commit: hash, Date: "2026-01-02T03:04:05Z", Modified: true}},
		{"go install of a commit", &debug.BuildInfo{Main: debug.Module{Version: pseudo}},
			node.Build{Module: pseudo, Commit: "0123456789ab", Date: "2026-01-02T03:04:05Z"}},
		{"go install of a release", &debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}},
			node.Build{Module: "v1.2.3"}},
	} {
		tt.want.Version = node.Version
		if got := node.BuildOf(tt.bi); got != tt.want {
			t.Errorf("%s:\n got %+v\nwant %+v", tt.name, got, tt.want)
		}
	}
	b := node.Build{Version: "1.2.3", Commit: hash, Date: "2026-01-02T03:04:05Z", Modified: true, Go: "go1.26.0",
		Platform: "linux/arm64"}
	want := "orbweaver 1.2.3\ncommit    " + hash + " (modified)\ndate      2026-01-02T03:04:05Z\n" +
		"go        go1.26.0 linux/arm64\n"
	if got := b.String(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}
