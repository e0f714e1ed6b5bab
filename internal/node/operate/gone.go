package operate

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/orbweaver/orbweaver/internal/cluster/members"
	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
)

// mostGone bounds the agents that have gone in a response.
const mostGone = 100

// mergeGone merges what all agents know of the agents that have gone. It sorts them by name. An instance that answers
// has not gone, and nor has one of which a restore has made it, or whose agent is silent. A silent agent has a status
// without its instance.
func mergeGone(all []*pb.AgentStatus) []*pb.GoneAgent {
	best := map[string]*pb.GoneAgent{}
	for _, s := range all {
		for _, g := range s.Gone {
			if was := best[g.Instance]; was == nil || better(g, was) {
				best[g.Instance] = g
			}
		}
	}
	for _, s := range all {
		delete(best, s.Instance)
		maps.DeleteFunc(best, func(_ string, g *pb.GoneAgent) bool {
			return s.Agent == g.Agent && (s.Instance == "" || members.Renewed(s.Instance, g.Instance))
		})
	}
	list := slices.Collect(maps.Values(best))
	slices.SortFunc(list, func(a, b *pb.GoneAgent) int { return b.Since.AsTime().Compare(a.Since.AsTime()) })
	list = list[:min(len(list), mostGone)]
	slices.SortStableFunc(list, func(a, b *pb.GoneAgent) int {
		return cmp.Or(strings.Compare(a.Agent, b.Agent), strings.Compare(a.Instance, b.Instance))
	})
	return list
}

// better reports whether a tells more of an instance than b: of a later start, with a reason, or later counts.
func better(a, b *pb.GoneAgent) bool {
	known := func(g *pb.GoneAgent) int {
		if g.Reason != "" {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(a.Boot, b.Boot), cmp.Compare(known(a), known(b)),
		a.AsOf.AsTime().Compare(b.AsOf.AsTime())) > 0
}

// addGone adds the counts of an agent that has gone to a sum. Other agents have its queue, and count it as theirs.
func addGone(sum, t *pb.Totals) {
	add(sum, &pb.Totals{Pages: t.Pages, Fetched: t.Fetched, Bytes: t.Bytes, Errors: t.Errors,
		UrlsUnique: max(t.UrlsUnique-t.UrlsQueued, 0)})
}
