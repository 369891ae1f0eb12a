# A module that needs no provider and no network: two resources that Terraform
# itself brings along. `-var fail=true` makes the second one fail.

variable "fail" {
  type    = bool
  default = false
}

resource "terraform_data" "network" {
  input = "10.0.0.0/16"
}

resource "terraform_data" "gateway" {
  input            = terraform_data.network.output
  triggers_replace = var.fail

  provisioner "local-exec" {
    command = var.fail ? "echo 'the gateway does not come up' >&2; exit 1" : "true"
  }
}
