# Fails where a source has a gap: something admitted, something assumed outside of a section, or a
# check of the kernel switched off. These words may not stand in comments either.
function gap(found) {
    print FILENAME ":" FNR ": " found
    gaps++
}
FNR == 1 { depth = 0 }
/(^|[^A-Za-z0-9_'])(Admitted|admit|give_up|Axioms?|Parameters?|Conjectures?|bypass_check)([^A-Za-z0-9_']|$)/ {
    gap($0)
}
/(Guard|Positivity|Universe) Checking|Declare ML/ { gap($0) }
/^ *Section / { depth++ }
/^ *End / { depth-- }
/^ *(Hypothesis|Hypotheses|Variables?|Context)([^A-Za-z0-9_']|$)/ && depth < 1 { gap($0) }
END { exit gaps > 0 }
