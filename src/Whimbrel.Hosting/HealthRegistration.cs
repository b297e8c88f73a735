namespace Whimbrel.Hosting;

/// <summary>A health check that the program has asked for: there has to be what it looks at.</summary>
/// <param name="Name">Of the server.</param>
/// <param name="IsOfNode">It looks at the server's node of a cluster.</param>
internal sealed record HealthRegistration(string Name, bool IsOfNode)
{
    /// <summary>Null when there is one of this name; else what is wrong.</summary>
    internal string? FindMistake(IReadOnlyCollection<string> servers, IReadOnlyCollection<string> nodes)
    {
        IReadOnlyCollection<string> known = IsOfNode ? nodes : servers;
        if (known.Contains(Name)) return null;
        string method = IsOfNode ? "AddWhimbrelCluster" : "AddWhimbrelServer";
        string there = known.Count == 0 ? "none was added" : $"there are {string.Join(", ", known)}";
        return $"AddHealthChecks().{method}(\"{Name}\"): there is no {(IsOfNode ? "node of a cluster" : "server")} of this name, {there}. builder.Services.{method} adds one";
    }
}
