using Whimbrel.Clusters;

namespace Whimbrel.Hosting;

/// <summary>
/// Reads the options of a node from the section <c>Cluster</c> of a server, over those in code.
/// <see cref="ClusterOptions.FindMistakes"/> checks the ranges; the bus checks the address of the broker.
/// </summary>
internal static class ClusterSection
{
    internal const string Name = "Cluster";
    internal const string AddressKey = "Address";

    internal static (ClusterOptions Options, string? Address) Read(SectionReader section, ClusterOptions code,
        Action<ClusterState, string> onStateChanged, Action<string> onTwin)
    {
        string? address = section.Text(AddressKey);
        ClusterOptions options = new()
        {
            AnnounceInterval = section.Time(nameof(code.AnnounceInterval), code.AnnounceInterval),
            Application = section.Text(nameof(code.Application)) ?? code.Application,
            ForgetNodesAfter = section.Time(nameof(code.ForgetNodesAfter), code.ForgetNodesAfter),
            IsolatedAfter = section.Time(nameof(code.IsolatedAfter), code.IsolatedAfter),
            Key = ReadKey(section, code.Key),
            MarkInterval = section.Time(nameof(code.MarkInterval), code.MarkInterval),
            MaxPayloadBytes = section.Int(nameof(code.MaxPayloadBytes), code.MaxPayloadBytes),
            MaxRecoverableGroups = section.Int(nameof(code.MaxRecoverableGroups), code.MaxRecoverableGroups),
            NodeId = section.Text(nameof(code.NodeId)) ?? code.NodeId,
            PresenceInterval = section.Time(nameof(code.PresenceInterval), code.PresenceInterval),
            PresenceLease = section.Text(nameof(code.PresenceLease)) is null
                ? code.PresenceLease
                : section.Time(nameof(code.PresenceLease), TimeSpan.MaxValue),
            QueueLimitBytes = section.Int(nameof(code.QueueLimitBytes), code.QueueLimitBytes),
            QueuePolicy = section.Word(nameof(code.QueuePolicy), code.QueuePolicy),
            RejoinGrace = section.Time(nameof(code.RejoinGrace), code.RejoinGrace),
            RepeatLimitBytes = section.Int(nameof(code.RepeatLimitBytes), code.RepeatLimitBytes),
            UnsubscribeAfter = section.Time(nameof(code.UnsubscribeAfter), code.UnsubscribeAfter),

            // Options that text cannot express.
            Deliver = code.Deliver,
            OnGap = code.OnGap,
            OnStateChanged = onStateChanged + code.OnStateChanged,
            OnTwin = onTwin + code.OnTwin,
        };
        section.End();
        foreach (string found in options.FindMistakes()) section.AddFound(found.TrimEnd('.'));
        return (options, address);
    }

    // Because the key is a secret, messages do not repeat it.
    private static ReadOnlyMemory<byte> ReadKey(SectionReader section, ReadOnlyMemory<byte> code)
    {
        if (section.Text(nameof(ClusterOptions.Key)) is not { } text) return code;
        byte[] bytes = new byte[text.Length];
        if (Convert.TryFromBase64String(text, bytes, out int length)) return bytes.AsMemory(0, length);
        section.Mistake(nameof(ClusterOptions.Key), "is no base64");
        return code;
    }
}
