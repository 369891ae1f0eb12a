variable "release" {
  type    = string
  default = "2.3.0"
}

# Records a change whenever the release changes. Terraform goes on if it cannot
# be recorded. In a CI run whose disk does not last, set CHLOG_SPOOL_DIR to a
# directory that does, or add --strict, which says so at once.
resource "terraform_data" "release" {
  triggers_replace = var.release

  provisioner "local-exec" {
    command    = "chlog log \"$TITLE\" --status completed --tag terraform,release"
    on_failure = continue

    environment = {
      TITLE = "Release ${var.release}"
    }
  }
}
