namespace Whimbrel.Hosting;

/// <summary>Registration of a health check. Its server or node must exist.</summary>
/// <param name="Name">Name of the server.</param>
/// <param name="IsOfNode">Whether it checks the server's node of a cluster.</param>
/// <param name="NotReadyBeforeStop">Time between the first unhealthy report and the stop.</param>
internal sealed record HealthRegistration(string Name, bool IsOfNode, TimeSpan NotReadyBeforeStop = default)
{
    /// <summary>Returns the mistake if there is no server or node of this name; otherwise null.</summary>
    internal string? FindMistake(IReadOnlyCollection<string> servers, IReadOnlyCollection<string> nodes)
    {
        IReadOnlyCollection<string> known = IsOfNode ? nodes : servers;
        if (known.Contains(Name)) return null;
        string method = IsOfNode ? "AddWhimbrelCluster" : "AddWhimbrelServer";
        string there = known.Count == 0 ? "none was added" : $"there are {string.Join(", ", known)}";
        return $"AddHealthChecks().{method}(\"{Name}\"): there is no {(IsOfNode ? "node of a cluster" : "server")} of "
            + $"this name, {there}. builder.Services.{method} adds one";
    }
}
