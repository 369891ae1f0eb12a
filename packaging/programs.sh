# Read by the scripts that build packages, with their arguments DIRECTORY [PROFILE]: compiles the
# programs or takes those that are there, and writes the manual pages and the completions of both
# to the folder $made. Sets $out, $profile, and $programs, the folder of the programs.
mkdir -p "${1:?usage: $0 DIRECTORY [PROFILE]}"
out=$(cd "$1" && pwd)
profile=${2:-dist}
[ $# -gt 1 ] || cargo build --profile dist --locked --bins
programs=${CARGO_TARGET_DIR:-target}/$profile
rm -rf "$made"
mkdir -p "$made/completions"
"$programs/changelog-server" man --out "$made/man"
"$programs/chlog" man --out "$made/man"
"$programs/chlog" completions bash >"$made/completions/chlog.bash"
"$programs/chlog" completions zsh >"$made/completions/_chlog"
"$programs/chlog" completions fish >"$made/completions/chlog.fish"
