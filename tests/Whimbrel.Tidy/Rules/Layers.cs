using Microsoft.CodeAnalysis;
using Microsoft.CodeAnalysis.CSharp.Syntax;

namespace Whimbrel.Tidy.Rules;

// Who may use whom inside the core. A type may name types of its own layer and of the layers below, never above; engines do
// not name each other. Judged by what a name means, not by its spelling. Enums and readonly structs are vocabulary: any layer may name them.
internal static class Layers
{
    private const string Core = "src/Whimbrel/";
    private static readonly string[] _engines = ["Epoll", "Uring", "Portable"];

    // The places where the order is broken on purpose, each with its reason.
    private static readonly (string From, string To, string Reason)[] _exceptions =
    [
        ("Connections/ConnectionHost.cs", "SessionContext", "handed through to the factory: the host's server or client fills it in, the connection never looks inside"),
        ("Session.cs", "Server", "what the user may ask a session for; the session itself never calls it"),
        ("Session.cs", "Client", "what the user may ask a session for; the session itself never calls it"),
        ("Arrival.cs", "Server", "what the user's filter may ask; handed through, the library never calls it there"),
        ("Engines/Engine.cs", "EngineSelector", "the engine is the factory: its constructor asks the selector once which loops to make"),
    ];

    public static IEnumerable<Finding> Check(CodeModel model)
    {
        foreach (var (file, node, target) in Uses(model))
        {
            string from = file.Path[Core.Length..], to = CodeModel.PathOf(target)[Core.Length..];
            if (target.TypeKind == TypeKind.Enum || target.IsReadOnly || _exceptions.Any(e => e.From == from && e.To == target.Name)) continue;

            if (EngineOf(from) is { } mine && EngineOf(to) is { } other && mine != other)
                yield return file.At(node, $"the {mine} engine names {target.Name} of the {other} engine");
            else if (EngineOf(from) is { } engine && to.StartsWith("Tls/", StringComparison.Ordinal))
                yield return file.At(node, $"the {engine} engine names {target.Name}, which is TLS: engines move bytes and know no layers");
            else if (LayerOf(from) < LayerOf(to))
                yield return file.At(node, $"{from} (layer {LayerOf(from)}) names {target.Name} of {to} (layer {LayerOf(to)}): lower layers do not know upper ones");
        }
    }

    /// 0 platform, buffers, diagnostics; 1 loops, connections, sessions, plain data; 2 engines; 3 selector; 4 servers and clients.
    internal static int LayerOf(string path)
    {
        var name = Path.GetFileNameWithoutExtension(path).Split('.')[0];
        if (path.StartsWith("Linux/", StringComparison.Ordinal) || path.StartsWith("Buffers/", StringComparison.Ordinal) || path.StartsWith("Diagnostics/", StringComparison.Ordinal)) return 0;
        if (EngineOf(path) is not null) return 2;
        if (name == "EngineSelector") return 3;
        if (path.StartsWith("Streams/", StringComparison.Ordinal) || name is "Server" or "Client" or "SessionContext") return 4;
        return 1;
    }

    private static string? EngineOf(string path) => _engines.FirstOrDefault(e => path.StartsWith($"Engines/{e}/", StringComparison.Ordinal));

    private static IEnumerable<(SourceFile File, SyntaxNode Node, INamedTypeSymbol Target)> Uses(CodeModel model)
    {
        foreach (var file in model.Files)
        {
            if (!file.IsIn(Core)) continue;
            var meaning = model.For(file);
            foreach (var node in file.All<SimpleNameSyntax>())
            {
                var symbol = meaning.GetSymbolInfo(node).Symbol;
                var type = symbol as INamedTypeSymbol ?? symbol?.ContainingType;
                if (type is not null && CodeModel.PathOf(type).StartsWith(Core, StringComparison.Ordinal)) yield return (file, node, type);
            }
        }
    }
}
