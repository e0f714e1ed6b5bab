package sentence

// patterns are the sentences of the events, without their full stops. See fill.
var patterns = map[string]string{
	"started": "the crawl started[ with version ${version}][, with ${pending#URL} waiting]" +
		"[, ${blocked} of them in blocked queues]",
	"resumed": "the crawl continued[ with version ${version}][, with ${pending#URL} waiting]" +
		"[, ${blocked} of them in blocked queues][; it fetches ${repeated#page} again][; it lost ${links_lost#link}]",
	"checkpoint":      "the state was saved[ (${bytes})][ in ${took_ms}]",
	"rate":            "the limit of the crawl's rate is ${limit} now",
	"crawl-paused":    "the crawl is paused",
	"crawl-continued": "the crawl goes on after a pause",
	"command":         "[${by}|somebody] gave the command ${verb}[ for ${about}][, because: ${why}]",
	"order": "[${by}|somebody] [?off took back the order|gave the order][ ${id}][: ${what}]" +
		"[, because: ${why}]",
	"earlier-read": "the indexes of earlier crawls were read[ in ${took_ms}][; they have ${payloads} payloads]" +
		"[, and ${bad} lines that cannot be read]",
	"blacklist":         "the blacklist ${file} is in force, with ${entries} entries[, ${patterns} of them patterns]",
	"blacklist-refused": "the blacklist ${file} has changed and cannot be used; the one before stays[: ${error}]",
	"history-failed":    "the counts for the console could not be written[: ${error}]",
	"segment-committed": "the segment ${segment} is complete, with ${records#record}[ in ${files#file}][ (${bytes})]",
	"segment-failed":    "a segment could not be completed; the end of the crawl tries again[: ${error}]",
	"segment-stored":    "the store has the segment ${segment}[, with ${files#file}][ (${bytes})]",
	"segment-removed":   "the files of the segment ${segment} are no longer here[ (${bytes})]: the store has them",
	"archive-full": "the crawl waits: the store does not have ${unsent} of the archive" +
		"[, and at most ${most} may be here]",
	"archive-room": "the store has so much of the archive that the crawl goes on[: ${unsent} wait for it]",
	"store-away":   "the store does not answer; the agent tries again[: ${error}]",
	"state-saved": "the store has state ${number} of this agent[ (${bytes} in ${files#file})]" +
		"[; ${sent} were sent]",
	"state-unclaimed": "no agent continues the saved state of agent ${agent}; another one takes it over later",
	"state-unreadable": "the saved state of agent ${agent} cannot be read, and the crawl goes on without it" +
		"[: ${error}][; restore ${object} and resume that agent, or remove these objects]",
	"state-adopting": "this agent takes over the saved state of agent ${agent}",
	"state-adopted":  "the agents have all that agent ${agent} had saved",
	"adoption-failed": "the saved state[ of agent ${agent}] could not be taken over; this one tries again" +
		"[: ${error}]",
	"state-removed": "the saved state of agent ${agent} was removed: it has left, and others have what it had",
	"claim-unsure":  "no visit begins: the store does not say that this process may crawl[: ${error}]",
	"claim-sure":    "the store says again that this process may crawl; it goes on",
	"state-failed":  "the state could not be saved in the store; the agent tries again[: ${error}]",
	"store-failed":  "segments could not be sent to the store; the agent tries again[: ${error}]",
	"orders-failed": "orders could not be written or put in force; the agent tries again[: ${error}]",
	"orders-kept":   "all orders are written and in force again",
	"verb-unknown":  "order ${id} has the verb ${verb}, which this version does not know and does not obey",
	"disk-scarce": "only ${free} of ${size} are free on the disk" +
		"[; the crawl stops before less than ${least} is free]",
	"stopping":      "the crawl stops (${reason})[ and waits for ${open_requests#open request}]",
	"stopped":       "the crawl has stopped (${reason})[ with ${pages#page}][?nothing ; nothing could be fetched]",
	"page-refused":  "the program did not take the page ${url}; the next run fetches it again[: ${error}]",
	"call-panicked": "the call ${call} met a mistake of this program; please report it[: ${error}]",
	"error":         "an error of this machine ended the crawl: ${error}",

	"host-paused":     "${host} is paused[ until ${until}][, because it answered ${status}]",
	"host-in-trouble": "${host} is in trouble: ${failures} look-ups in a row failed (${kind})",
	"origin-in-trouble": "${origin} is in trouble: ${failures} tries in a row failed (${kind})" +
		"[; ${waiting#URL} failed with it]",
	"host-dropped": "the queue of ${host} was dropped: ${links#link}",
	"proxy-down":   "the proxy cannot be reached[: ${error}]",

	"seen-damaged":    "${file} was damaged and is repaired[: ${error}]",
	"seen-lost":       "the disk lost ${links#link} that waited in state/seen[: ${error}]",
	"replica-damaged": "the replica of the records of ${agent} is damaged; it ships them again[: ${error}]",

	"waiting":      "the agent waits for ${for}[; present: ${agents}][: ${error}]",
	"joined":       "${agent} joined the cluster[ at ${address}]",
	"view":         "the hosts are divided among ${agents}",
	"alone":        "no other agent answered; this one continues alone[: ${error}]",
	"calls-failed": "the agent can no longer answer other agents[: ${error}]",

	"push-failed":    "${agent} does not take [${links#link}|${pages#page}]; they wait[: ${error}]",
	"push-again":     "${agent} takes links again",
	"page-damaged":   "the stored page ${url} cannot be read and is fetched again",
	"page-not-taken": "${agent} refused the page ${url}[?kept ; this agent keeps it][: ${error}]",
	"ship-failed":    "${agent} does not take ${records#record} for its replica; they wait[: ${error}]",
	"ship-again":     "${agent} takes records for its replica again",
	"shipped-whole": "new heirs have all records[ (${records})] of the hosts[ after ${took_ms}]; " +
		"the loss of one more agent loses no URL",
	"shipped": "heirs got ${records#record}[ (${bytes})][, after ${lag_ms} on average][; ${left} were not shipped]",

	"hosts-given": "${agent} was told of the pages of ${hosts#host} that it gets",
	"hosts-taken": "${agent} told this agent of the pages of ${hosts#host} that it gives",
	"inherited": "this agent took over hosts of ${agent}, which is lost, with ${pending#link}" +
		" waiting and ${known#URL} known",
	"inherit-failed": "hosts of ${agent} could not be taken over; the agent tries again[: ${error}]",
	"list-moved":     "the list of the archive ${list} moved[?is_lost : the archive is lost|: the archive is not lost]",
	"lists-merged":   "the list ${list} got ${urls#URL} of more lost archives",
	"refetch":        "the agents fetch ${urls#URL} again that were in the lost archive of ${agent}",
	"refetch-failed": "the list of a lost archive could not be read; the agent tries again[: ${error}]",

	"lost-stored":        "the store has ${stored#page} of the lost archive ${list}; ${urls#URL} are lost",
	"lost-stored-failed": "the store does not tell which pages of lost archives it has; all count as lost[: ${error}]",

	"leaving": "the agent leaves: it begins to give ${hosts#host} and ${links#link} to the others",
	"leave-waits": "the agent that leaves has given its hosts away; programs have until" +
		" ${until} to collect ${pages#page}",
	"pages-returned": "programs did not collect ${pages#page}; other agents fetch them again" +
		"[; the agent gave up ${given_up}]",
	"gave-all": "the agent has left: it gave away ${hosts#host} and ${links#link}" +
		"[; it could not give away ${left#link}]",
	"leave-undone":  "all agents were leaving; this one stays and ends the crawl[, with ${links#link}]",
	"leave-unheard": "some agents hear later that this one leaves or stays[: ${error}]",

	"lease-lost":         "the agent lost contact with the others and cut off ${visits#visit}",
	"right-lost":         "nobody answers this agent: it starts no visits and cut off ${visits#visit}[ (${cause})]",
	"right-back":         "the coordinators answer again: the agent visits its hosts",
	"coordinators-anew":  "the coordinators have begun anew; the agent forgets ${entries} entries of those before",
	"host-table-damaged": "the table of hosts and their agents is damaged; the agent reads ${entries} entries again",

	"divides-rate":  "this agent divides the crawl's rate among the agents",
	"counts-pages":  "this agent counts the pages of all agents",
	"limit-reached": "the page limit is reached[: ${page_limit#page}]",
	"halt-failed":   "the agent could not stop at the page limit[: ${error}]",
}
