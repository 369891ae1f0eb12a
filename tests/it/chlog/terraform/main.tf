variable "plain" {
  default = "PLANTED-default"
}
variable "given" {
  default = ""
}
variable "from_environment" {
  default = ""
}
variable "sensitive" {
  default   = "PLANTED-sensitive-variable"
  sensitive = true
}
variable "fail" {
  default = false
}
locals {
  local = "PLANTED-local"
}
resource "terraform_data" "stays" {
  input = { plain = var.plain, local = local.local, list = ["PLANTED-list"] }
}
resource "terraform_data" "updated" {
  input = [var.given, var.from_environment, sensitive("PLANTED-sensitive-value")]
}
resource "terraform_data" "replaced" {
  for_each         = toset(["eu", "us"])
  input            = var.sensitive
  triggers_replace = [var.given]
  provisioner "local-exec" {
    command = "echo PLANTED-stdout; echo PLANTED-stderr >&2; echo $SECRET"
    environment = {
      SECRET = "PLANTED-provisioner-environment"
    }
  }
  provisioner "local-exec" {
    when    = destroy
    command = "echo PLANTED-destroyed"
  }
}
resource "terraform_data" "broken" {
  count      = var.fail ? 1 : 0
  depends_on = [terraform_data.stays, terraform_data.updated]
  provisioner "local-exec" {
    command = "echo PLANTED-failing-output; echo PLANTED-failing-error >&2; exit 3"
    environment = {
      SECRET = "PLANTED-failing-environment"
    }
  }
}
resource "terraform_data" "after" {
  count      = var.fail ? 1 : 0
  depends_on = [terraform_data.broken]
}
resource "terraform_data" "checked" {
  count      = var.fail ? 1 : 0
  depends_on = [terraform_data.updated]
  lifecycle {
    postcondition {
      condition     = self.id == "PLANTED-condition"
      error_message = "PLANTED-error-message ${var.plain}"
    }
  }
}
output "plain" {
  value = "PLANTED-output ${var.plain}"
}
output "sensitive" {
  value     = var.sensitive
  sensitive = true
}
