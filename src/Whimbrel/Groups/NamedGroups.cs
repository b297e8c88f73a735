using System.Collections;
using System.Collections.Concurrent;
using System.Diagnostics.CodeAnalysis;

namespace Whimbrel;

/// <summary>
/// Groups found by name. A group is listed from its first join until its last member has left, and is then removed, so
/// any number of names may be used over time. All members may be used from any thread.
/// </summary>
/// <remarks>
/// <list type="number">
/// <item>Looking up a name keeps no memory: <see cref="this[string]"/> returns an object that stands for the name, and
/// only a join lists it.</item>
/// <item>One name is one group. Of several concurrent first joins, one lists its object and the others join that one. A
/// join that meets the last leave finds the group or lists it again, and is never lost.</item>
/// <item>Joins, leaves and broadcasts by name of one caller take effect in call order (contracts 7 and 17).</item>
/// <item>A group with its own state is created by the application and added with <see cref="TryAdd"/>. It stays until
/// <see cref="Remove"/>, with or without members.</item>
/// </list>
/// </remarks>
public sealed class NamedGroups : IEnumerable<SessionGroup>
{
    private readonly ConcurrentDictionary<string, SessionGroup> _listed = new(StringComparer.Ordinal);

    /// <summary>Number of listed groups. May be slightly outdated.</summary>
    public int Count => _listed.Count;

    /// <summary>The group with this name: the listed one, or an object that the first join lists. Never null.</summary>
    /// <param name="name">Name of the group; case-sensitive.</param>
    public SessionGroup this[string name]
    {
        get
        {
            ArgumentNullException.ThrowIfNull(name);
            if (Find(name) is { } listed) return listed;
            SessionGroup group = new(name);
            group.ActFor(this);
            return group;
        }
    }

    /// <summary>
    /// Finds the listed group with this name: one with members or a pending join, or one that was added.
    /// </summary>
    /// <param name="name">Name of the group; case-sensitive.</param>
    /// <param name="group">The group, or null.</param>
    public bool TryGet(string name, [NotNullWhen(true)] out SessionGroup? group)
    {
        ArgumentNullException.ThrowIfNull(name);
        return _listed.TryGetValue(name, out group);
    }

    /// <summary>
    /// Lists a group of the application under its name until <see cref="Remove"/>. Returns false if the name is taken.
    /// </summary>
    /// <param name="group">Group to list, for example of a class derived from <see cref="SessionGroup"/>. Throws
    /// <see cref="InvalidOperationException"/> if it is or was in a directory.</param>
    public bool TryAdd(SessionGroup group)
    {
        ArgumentNullException.ThrowIfNull(group);
        return group.TryKeep(this);
    }

    /// <summary>
    /// Removes all members of the group and stops keeping it. The name is free when the last member has left, on its
    /// loop; a session that joins in the meantime stays, and so does the group.
    /// </summary>
    /// <param name="name">Name of the group; case-sensitive.</param>
    /// <returns>False if no group with that name is listed.</returns>
    public bool Remove(string name)
    {
        if (!TryGet(name, out SessionGroup? group)) return false;
        group.Clear();
        group.Unkeep();
        return true;
    }

    /// <summary>
    /// Enumerates the listed groups, in no particular order. Groups added or removed in the meantime may or may not be
    /// included.
    /// </summary>
    public IEnumerator<SessionGroup> GetEnumerator()
    {
        foreach (KeyValuePair<string, SessionGroup> entry in _listed) yield return entry.Value;
    }

    IEnumerator IEnumerable.GetEnumerator() => GetEnumerator();

    /// <summary>Returns the number of groups as text.</summary>
    public override string ToString() => $"{Count} {(Count == 1 ? "group" : "groups")}";

    internal SessionGroup? Find(string name) => _listed.GetValueOrDefault(name);

    /// <summary>Lists a group. The caller holds the group's lock.</summary>
    internal bool TryList(SessionGroup group) => _listed.TryAdd(group.Name, group);

    /// <summary>Removes a group. The caller holds the group's lock.</summary>
    internal void Unlist(SessionGroup group) =>
        _listed.TryRemove(new KeyValuePair<string, SessionGroup>(group.Name, group));
}
