"""A contract of import-linter: what begins with an underscore is private to the room that it stands in."""

from importlinter import Contract, ContractCheck, output


class PrivateModules(Contract):
    """No room imports a private module of another; root modules, such as ``nearcal._arrays``, are everybody's."""

    type_name = "private_modules"

    def check(self, graph, verbose):
        return ContractCheck(kept=not self._broken(graph), metadata={"broken": self._broken(graph)})

    def render_broken_contract(self, check):
        for importer, imported in check.metadata["broken"]:
            output.print_error(f"{importer} imports {imported}, which is private to another room", bold=False)

    @staticmethod
    def _broken(graph):
        found = []
        for importer in sorted(graph.modules):
            for imported in sorted(graph.find_modules_directly_imported_by(importer)):
                room, *inside = imported.removeprefix("nearcal.").split(".")
                is_private = imported.startswith("nearcal.") and any(part.startswith("_") for part in inside)
                if is_private and not importer.startswith(f"nearcal.{room}"):
                    found.append((importer, imported))
        return found
