namespace Chat_Server;

/// <summary>The section Room of appsettings.json.</summary>
public sealed class RoomOptions
{
    /// <summary>What a guest is asked first.</summary>
    public string Welcome { get; set; } = "Who are you?";

    /// <summary>Of names, in characters.</summary>
    public int LongestName { get; set; } = 20;
}
