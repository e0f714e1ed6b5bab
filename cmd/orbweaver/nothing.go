package main

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/node"
	"github.com/orbweaver/orbweaver/internal/report"
)

// maxFailedShown is how many failed seeds the message names.
const maxFailedShown = 10

// nothingFetched returns the message for a crawl that fetched nothing: which seeds
// failed, why, and what the operator can do.
func nothingFetched(cfg *node.Config, res node.Result) string {
	log, skipped := filepath.Join(cfg.Dir, "logs", "crawl.log"), filepath.Join(cfg.Dir, "reports", "skipped.jsonl")
	switch {
	case cfg.Cluster != nil && res.FailedCount == 0:
		return "no agent could fetch anything; the causes are in " + log + " of each agent"
	case res.OnlyRedirects && res.Summary.Skipped["redirectLoop"] > 0:
		text := "the seeds are redirects that lead back to themselves, and none leads to a page; see " + log
		if cfg.Crawl.Cookies == nil {
			text += "\nSome servers set a cookie first. --cookies sends it back, and then follows such a redirect " +
				"once more."
		}
		return text
	case res.OnlyRedirects:
		return "the seeds are redirects, and none leads to a page within the crawl's scope; see " + log + " and " +
			skipped
	}
	if res.FailedCount == 0 {
		return "no seed gave a page in any run; the causes are in " + log
	}
	var b strings.Builder
	what, others := "nothing could be fetched", res.Summary.Pages+res.Summary.Files > 0
	if others { // pages that sitemaps name
		what = "no seed gave a page"
	}
	if b.WriteString(what + ": the seed failed"); res.FailedCount > 1 {
		b.Reset()
		fmt.Fprintf(&b, "%s: %d seeds failed", what, res.FailedCount)
	}
	var remedies []string
	for _, s := range res.Failed[:min(len(res.Failed), maxFailedShown)] {
		why, remedy := explainSeed(s, cfg.Contact != "")
		fmt.Fprintf(&b, "\n  %s  %s", report.Clean(s.URL.String()), report.CleanText(why))
		switch {
		case s.Via == "https"+strings.TrimPrefix(s.URL.String(), "http"):
			fmt.Fprintf(&b, " (no connection to %s either)", report.Clean(s.Via))
		case s.Via != "":
			fmt.Fprintf(&b, " (%s redirects to it)", report.Clean(s.Via))
		}
		if remedy != "" && !strings.Contains(strings.Join(remedies, "\n"), remedy) {
			remedies = append(remedies, remedy)
		}
	}
	if more := res.FailedCount - maxFailedShown; more > 0 {
		fmt.Fprintf(&b, "\n  and %d more: see %s", more, log)
	}
	for _, r := range remedies {
		b.WriteString("\n" + r)
	}
	switch {
	case cfg.Cluster != nil:
		b.WriteString("\nTo try the seeds again, start all agents with --overwrite; change flags if needed.")
	case others:
		b.WriteString("\nTo begin anew, give the command again with --overwrite, and with other seeds or flags.")
	case res.Summary.Fetched > 0:
		b.WriteString("\nTo begin anew, give the command again, with other seeds or flags.")
	default:
		fmt.Fprintf(&b, "\nTo try the seeds again, change flags if needed: orbweaver crawl --resume%s",
			dirFlag(cfg.Dir))
	}
	return b.String()
}

// explainSeed returns why a seed failed, and what the operator can do. contact reports
// whether --contact was given.
func explainSeed(s crawl.FailedSeed, contact bool) (why, remedy string) {
	why = s.Why()
	tls := s.Kind == "tls" || strings.Contains(s.Cause, "x509:")
	switch {
	case s.Code == report.CodeRobotsDenied:
		return why, "\"orbweaver check robots URL\" shows the line of robots.txt that decides. " +
			"Ask the site's operator for permission."
	case !contact && s.Kind != "tls" &&
		(strings.Contains(s.Cause, "contact") || strings.Contains(s.Cause, "not a loopback address")):
		return why, "Hosts other than this machine require --contact, " +
			"a mail address or URL at which the operators of sites can reach you."
	case s.Kind == "refused-address" || strings.Contains(s.Cause, "refused-address"):
		return why, "Addresses of this machine and of private networks require --allow-private."
	case tls && strings.Contains(s.Cause, "does not look like a TLS"):
		return why, "The server does not speak TLS on that port. Try the seed with http:// instead."
	case tls:
		return why, "--ca FILE trusts the authority that signed the certificate. --insecure accepts any certificate."
	case s.Kind == "dns" || strings.Contains(s.Cause, ": dns: "):
		return why, "Check the spelling of the name. --dns ADDR asks another name server."
	case s.Kind == "connect" || s.Kind == "timeout-connect" || strings.Contains(s.Cause, "connect: "):
		return why, "Check that a server listens on that port, and that no firewall blocks the way."
	}
	return why, ""
}
