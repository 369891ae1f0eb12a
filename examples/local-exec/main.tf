variable "release" {
  type    = string
  default = "2.3.0"
}

# Records a change whenever the release changes. Terraform goes on if it cannot
# be recorded.
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
