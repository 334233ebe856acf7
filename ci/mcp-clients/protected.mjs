// An MCP server of the web (the official SDK) that wants tokens of an authorization server (oidc-provider), both by others.

import { createServer } from "node:http";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

/** How long an access token counts, in seconds: so short that it has to be renewed. */
export const LIFE = 3;

const SCOPES = ["notes:read", "notes:write"];

/** Starts both. What they saw is in `seen`. */
export async function start(folder) {
  const require = createRequire(`${folder}/package.json`);
  const sdk = (path) => require(`@modelcontextprotocol/sdk/${path}`);
  const { default: Provider } = await import(pathToFileURL(require.resolve("oidc-provider")));
  const seen = { grants: [], tokens: new Set() };

  const logins = createServer();
  const issuer = await listen(logins);
  const server = createServer();
  const resource = `${await listen(server)}/mcp`;
  const provider = new Provider(issuer, {
    scopes: SCOPES,
    features: {
      devInteractions: { enabled: true },
      registration: { enabled: true },
      resourceIndicators: {
        enabled: true,
        defaultResource: () => resource,
        useGrantedResource: () => true,
        getResourceServerInfo: () => ({ scope: SCOPES.join(" "), accessTokenTTL: LIFE, accessTokenFormat: "opaque", audience: resource }),
      },
    },
    pkce: { required: () => true },
    // Whoever uses a refresh token twice loses the login.
    rotateRefreshToken: true,
    issueRefreshToken: () => true,
    findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
  });
  provider.on("grant.success", (context) => seen.grants.push(context.oidc.params.grant_type));
  provider.on("grant.error", (_, error) => seen.grants.push(`${error.message}: ${error.error_description}`));
  provider.on("grant.revoked", () => seen.grants.push("revoked"));
  logins.on("request", provider.callback());

  const metadata = await (await fetch(`${issuer}/.well-known/openid-configuration`)).json();
  server.on("request", protectedServer(require("express"), sdk, provider, metadata, resource, seen));
  const end = () => [logins, server].forEach((one) => one.close() && one.closeAllConnections());
  return { provider, issuer, resource, seen, end };
}

function listen(server) {
  return new Promise((done) => server.listen(0, "127.0.0.1", () => done(`http://127.0.0.1:${server.address().port}`)));
}

function protectedServer(express, sdk, provider, metadata, resource, seen) {
  const { McpServer } = sdk("server/mcp.js");
  const { StreamableHTTPServerTransport } = sdk("server/streamableHttp.js");
  const { requireBearerAuth } = sdk("server/auth/middleware/bearerAuth.js");
  const { InvalidTokenError } = sdk("server/auth/errors.js");
  const { getOAuthProtectedResourceMetadataUrl, mcpAuthMetadataRouter } = sdk("server/auth/router.js");

  const verifier = {
    async verifyAccessToken(text) {
      const token = await provider.AccessToken.find(text);
      if (!token || token.aud !== resource) throw new InvalidTokenError("no such token");
      seen.tokens.add(text);
      return { token: text, clientId: token.clientId, scopes: token.scope.split(" "), expiresAt: token.exp, extra: { user: token.accountId } };
    },
  };
  const url = new URL(resource);
  const resourceMetadataUrl = getOAuthProtectedResourceMetadataUrl(url);
  const wants = (...requiredScopes) => requireBearerAuth({ verifier, requiredScopes, resourceMetadataUrl });
  const app = express();
  app.use(mcpAuthMetadataRouter({ oauthMetadata: metadata, resourceServerUrl: url, scopesSupported: ["notes:read"] }));
  app.use(express.json());
  app.use("/mcp", (request, response, next) => {
    const writes = request.body?.method === "tools/call" && request.body.params.name === "write";
    wants(writes ? "notes:write" : "notes:read")(request, response, next);
  });
  app.post("/mcp", async (request, response) => {
    const server = new McpServer({ name: "notes", version: "1.0.0" });
    const text = (text) => ({ content: [{ type: "text", text }] });
    server.registerTool("who", { description: "Tells who is logged in." }, ({ authInfo }) => text(`notes of ${authInfo.extra.user}`));
    server.registerTool("write", { description: "Writes a note." }, () => text("written"));
    const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined });
    response.on("close", () => void transport.close());
    await server.connect(transport);
    await transport.handleRequest(request, response, request.body);
  });
  app.all("/mcp", (_, response) => response.status(405).end());
  return app;
}
