# Sourced by scripts that test pages in Chromium: finds or installs it, and sets CHROMIUM.

find_chromium() {
  CHROMIUM=$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)
  if [ -z "$CHROMIUM" ]; then
    ci/lib/install chromium 2>/dev/null || {
      skip "Chromium is not installed and could not be"
      return 1
    }
    CHROMIUM=$(command -v chromium)
  fi
  export CHROMIUM
}
